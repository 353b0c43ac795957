"""Collectives by kind, group and size; their calls; sends and receives by pair of ranks."""

from tracetui.analysis.tables.table import EVERY, Field, Table

_BANDWIDTH = (
    Field(
        "algbw_gbps", "AlgBW", "number", width=6, priority=3, null=True,
        about="bytes by time, 10^9 bytes per second, as nccl-tests count",
    ),
    Field(
        "busbw_gbps", "BusBW", "number", width=6, priority=1, main=True, null=True,
        about="what each link carries, 10^9 bytes per second: `algbw_gbps` × 2(n−1)/n for an all-reduce of n ranks, "
        "× (n−1)/n for all-gather, reduce-scatter and all-to-all, × 1 for broadcast, reduce, send and receive",
    ),
    Field(
        "link_percent", "Link", "percent", width=5, priority=2, null=True,
        about="`busbw_gbps` of what the link between the GPUs of a host carries in one direction; null for groups too "
        "large for one host",
    ),
)  # fmt: skip
_KIND = Field(
    "kind", "Collective", width=14, priority=0, null=True,
    about="`all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`, `broadcast`, `send`, `recv`, …; `send_recv` of "
    "a kernel whose name says no more",
)  # fmt: skip
_GROUP = Field("group", "Group", width=5, priority=1, null=True, about="process group, by its name")
_TYPE = Field("element_type", "Type", width=5, priority=5, null=True, about="type of the elements")

COLLECTIVES = Table(
    "collectives",
    "Collectives by kind, group and size",
    "collectives",
    (
        _KIND,
        _GROUP,
        Field(
            "group_description", "Group is", width=8, priority=7, hidden=True, null=True,
            about="what the program calls the group",
        ),
        Field("group_size", "Ranks", "count", width=5, priority=3, null=True, about="number of ranks in the group"),
        Field("group_ranks", "Members", width=12, priority=8, hidden=True, null=True, about="the group's ranks"),
        Field(
            "bytes", "Size", "bytes", width=8, priority=0, main=True, null=True,
            about="bytes of one call, the larger of what a rank gives and gets",
        ),
        _TYPE,
        Field("calls", "Calls", "count", width=6, priority=1, main=True, about="number of calls"),
        Field("total_ns", "Total", "time", priority=0, main=True, null=True, about="sum of the durations of all calls"),
        Field("mean_ns", "Mean", "time", priority=4, null=True, about="mean duration of a call"),
        Field("shortest_ns", "Shortest", "time", priority=4, null=True, about="duration of the shortest call"),
        Field(
            "waiting_ns", "Waiting", "time", priority=2, null=True,
            about="what of the total is waiting for ranks that came later; null unless the other ranks are known",
        ),
        Field(
            "transfer_ns", "Transfer", "time", priority=3, null=True,
            about="what of the total is transfer; null unless the other ranks are known",
        ),
        Field(
            "exposed_ns", "Exposed", "time", priority=4, null=True,
            about="what of the total no computing kernel of the same GPU runs beside; null on CPUs",
        ),
        Field("exposed_percent", "Exp", "percent", width=5, priority=1, null=True, about="exposed time, of the total"),
        *_BANDWIDTH,
        Field(
            "rests_on", "BW by", width=13, priority=6, null=True,
            about="what the bandwidth rests on: `transfer`, or a lower bound by the transfer of the `ranks here`, if "
            "others are missing, by the `shortest call` of this size or by the `whole call`, waiting included",
        ),
        Field(
            "coalesced", "Coal", "flag", width=4, priority=8, hidden=True,
            about="a kernel does several operations, whose sizes are not told apart",
        ),
    ),
    data=EVERY,
    reports=(
        "total_ns", "calls", "bytes", "waiting_ns", "exposed_percent", "algbw_gbps", "busbw_gbps",
        "link_percent", "group_size", "group", "kind",
    ),
    sort=("total_ns", True),
    drill="its calls",
)  # fmt: skip

COLLECTIVE_CALLS = Table(
    "collective_calls",
    "Calls",
    "calls",
    (
        Field(
            "at_ns", "At", "time", priority=0, null=True,
            about="when it begins, from the start of the recording in view",
        ),
        Field("step", "Step", "number", width=5, priority=2, null=True, type="whole", about="step that launched it"),
        Field(
            "order", "No.", "number", width=5, priority=3, null=True, type="whole",
            about="place among its group's on its GPU in the recording, from 0",
        ),
        Field("seq", "Seq", "number", width=5, priority=4, null=True, type="whole", about="number in its group"),
        Field("duration_ns", "Duration", "time", priority=0, main=True, null=True, about="waiting and transfer"),
        Field(
            "queued_ns", "Queued", "time", priority=3, null=True, about="from its launch on the host to its beginning"
        ),
        Field("waiting_ns", "Waiting", "time", priority=2, null=True, about="for ranks that came later"),
        Field("transfer_ns", "Transfer", "time", priority=2, null=True, about="the rest, which moves the data"),
        Field("exposed_ns", "Exposed", "time", priority=1, null=True, about="no computing kernel runs beside it"),
        *_BANDWIDTH,
        Field("gpu", "GPU", "number", width=3, priority=6, null=True, type="whole", about="the GPU it runs on"),
        Field("stream", "Stream", "number", width=6, priority=5, null=True, type="whole", about="the stream"),
        Field("name", "Name", width=12, priority=5, flex=True, about="as the recording spells it"),
        Field("in_splits", "Gives", width=8, priority=7, null=True, about="elements for each rank, where uneven"),
        Field("out_splits", "Gets", width=8, priority=7, null=True, about="elements from each rank, where uneven"),
        Field(
            "source", "Told by", width=8, priority=8, hidden=True,
            about="what describes it: `kernel`, `operator`, `range`, or only the kernel's `name`",
        ),
    ),
    sort=("at_ns", False),
)  # fmt: skip

PAIRS = Table(
    "collective_pairs",
    "Sends and receives by pair of ranks",
    "pairs",
    (
        Field("source", "From", "number", width=5, priority=0, null=True, type="whole", about="the rank that sends"),
        Field("target", "To", "number", width=5, priority=0, null=True, type="whole", about="the rank that receives"),
        Field("kind", "Call", width=6, priority=1, about="`send` or `recv`, as this rank sees it"),
        _GROUP,
        Field("calls", "Calls", "count", width=6, priority=0, main=True, about="number of sends or receives"),
        Field("bytes", "Bytes", "bytes", width=9, priority=0, main=True, null=True, about="bytes of all calls"),
        Field(
            "total_ns", "Total", "time", priority=0, main=True, null=True,
            about="sum of the durations of all calls, waiting included; null where one kernel does several",
        ),
        Field("shared", "Shared", "count", width=6, priority=3, about="calls that share a kernel with others"),
    ),
    data=EVERY,
    reports=("bytes", "calls", "total_ns", "source", "target", "kind", "group"),
    sort=("bytes", True),
)  # fmt: skip
