"""What changed from run A to run B."""

from dataclasses import replace

from tracetui.analysis.tables.table import EVERY, Field, Table

OPERATORS = Table(
    "diff_operators",
    "Operators",
    "operators",
    (
        Field(
            "name", "Name", width=18, priority=0, flex=True, short="short_name",
            about="name, by which the runs are aligned",
        ),
        Field(
            "status", "Status", "status", width=9, priority=0,
            about="`added`: only in B; `removed`: only in A; `changed`; `same`: as many launches of GPU work (calls, "
            "where no run has any), and a difference within the noise, or within 1 % where that is unknown",
        ),
        Field(
            "delta_ns", "B - A", "delta", width=9, priority=0, main=True, sums=True,
            about="time in B minus time in A; + means that B takes longer",
        ),
        Field("delta_percent", "%", "change", width=6, priority=2, about="difference, % of A's time"),
        Field("a_ns", "A", "time", priority=1, sums=True, about="GPU time in A"),
        Field("b_ns", "B", "time", priority=1, sums=True, about="GPU time in B"),
        Field(
            "a_calls", "A calls", "count", width=7, priority=3, main=True, sums=True, type="real",
            about="calls in A",
        ),
        Field("b_calls", "B calls", "count", width=7, priority=3, sums=True, type="real", about="calls in B"),
        Field(
            "noise_ns", "Noise", "time", priority=4, null=True,
            about="difference per step that may be chance: half of a 95 % interval, by Student's t",
        ),
        Field("calls", "Calls", "number", screen=False, type="text", about="calls in A; after an arrow, calls in B"),
    ),
    data=("name", "status", "a_calls", "b_calls", "a_ns", "b_ns", "delta_ns", "noise_ns"),
    reports=("delta_ns", "a_ns", "b_ns", "calls", "status", "name"),
    sort=("delta_ns", True),
    key="name",
    drill="kernels",
    section="operators",
)  # fmt: skip
KERNELS = replace(
    OPERATORS,
    id="diff_kernels",
    title="Kernels",
    noun="kernels",
    fields=(
        *OPERATORS.fields,
        Field(
            "b_name", "Name in B", width=12, priority=2, flex=True, null=True, short="b_short_name",
            about="B's name for it, where it differs",
        ),
        Field(
            "paired_by", "Paired by", width=9, priority=9, null=True,
            about="how two kernels were matched: `name`; `key`: one function as two tools spell it; `types`: the "
            "same template over other element types; `operator`: B launches it where A launched the other, in the same "
            "calls of an operator; the last two are always `changed`; none where one run lacks it",
        ),
        Field(
            "operator", "Operator", width=12, priority=5, flex=True, null=True,
            about="of kernels paired by `operator`, the one that launches most of them",
        ),
        Field(
            "a_names", kind="list", type="words", screen=False,
            about="of kernels paired by `operator`, all names in A, the longest first: one may stand for several",
        ),
        Field("b_names", kind="list", type="words", screen=False, about="the same in B"),
        Field("short_name", screen=False, about="name without namespaces, parameters and most template arguments"),
    ),
    data=("short_name", *OPERATORS.data, "b_name", "paired_by", "operator", "a_names", "b_names"),
    drill="",
    section="kernels",
)  # fmt: skip
MODULES = replace(OPERATORS, id="diff_modules", title="Modules", noun="modules", section="modules", sort=None)
KINDS = replace(
    OPERATORS,
    id="diff_kinds",
    title="Kinds of work",
    noun="kinds",
    fields=(
        Field(
            "kind", "Kind", width=14, priority=0,
            about="category of kernels; of indexing, selection, sorting and concatenation what it is (`top-k`, `sort`, "
            "`gather/scatter`); `memcpy`, `memset`",
        ),
        *(field for field in OPERATORS.fields if field.name != "name"),
        Field(
            "name", "Top kernel", width=18, priority=2, flex=True, short="short_name",
            about="the kernel of the kind that takes most time, in A where A has the kind",
        ),
        Field("short_name", screen=False, about="name without namespaces, parameters and most template arguments"),
    ),
    data=("kind", "status", "a_calls", "b_calls", "a_ns", "b_ns", "delta_ns", "noise_ns", "name", "short_name"),
    reports=("delta_ns", "a_ns", "b_ns", "calls", "status", "kind", "name"),
    key="kind",
    drill="",
    section="kinds",
    page=False,
)  # fmt: skip
_LAUNCHED = "GPU time of what any thread launched while it was open, in"
RANGES = replace(
    OPERATORS.having("name", about="name and domain, by which the runs are aligned; all steps are one range")
    .having("a_ns", about=f"{_LAUNCHED} A")
    .having("b_ns", about=f"{_LAUNCHED} B"),
    id="diff_ranges",
    title="Ranges",
    noun="ranges",
    section="ranges",
)
STEP = Table(
    "diff_step",
    "Step",
    "parts",
    (
        Field("what", "Part of the step", width=16, priority=0, flex=True, about="parts that add up to the step"),
        Field("a_ns", "A", "time", priority=1, about="time in the average step of A"),
        Field("b_ns", "B", "time", priority=1, about="time in the average step of B"),
        Field(
            "delta_ns", "B - A", "delta", width=9, priority=0, main=True,
            about="time in B minus time in A, per step",
        ),
        Field(
            "part", screen=False,
            about="`gpu_time` (all GPU work launched in the step, summed), `overlap` (minus what runs at the same "
            "time or outside the step), idle time by cause: `host_wait`, `kernel_wait`, `other`; a column sums to "
            "the step; in `waiting` the parts of `host_wait`: `loader`, `synchronisation` (a call had waited for the "
            "GPU), `launching` (and other work of the host), which sum to it",
        ),
    ),
    data=("part", "a_ns", "b_ns", "delta_ns"),
    reports=("what", "a_ns", "b_ns", "delta_ns"),
    key="what",
    section="split",
)  # fmt: skip
CONDITIONS = Table(
    "diff_conditions",
    "Conditions",
    "differences",
    (
        Field("field", "What differs", width=16, priority=0, flex=True, about="a setting, a version, a property"),
        Field("a", "A", width=12, priority=0, flex=True, about="in A"),
        Field("b", "B", width=12, priority=0, flex=True, about="in B"),
        Field(
            "sort", "Counts as", width=10, priority=0,
            about="matters: times depend on it even for the same code; other work: the runs did not do the same;"
            " chosen: somebody chose it; noted: neither",
        ),
    ),
    key="field",
)  # fmt: skip
WATERFALL = Table(
    "diff_waterfall",
    "Waterfall",
    "categories",
    (
        Field("category", "Category", width=16, priority=0, flex=True, about="category of kernels"),
        Field(
            "count_effect_ns",
            "By count",
            "delta",
            width=9,
            priority=0,
            about="difference per step that comes from more or fewer calls",
        ),
        Field(
            "mean_effect_ns",
            "By duration",
            "delta",
            width=11,
            priority=0,
            about="difference per step that comes from longer or shorter calls",
        ),
        Field("delta_ns", "B - A", "delta", width=9, priority=0, main=True, about="both together, per step"),
    ),
    data=("category", "count_effect_ns", "mean_effect_ns"),
    reports=EVERY,
    key="category",
    drill="kernels",
    section="waterfall",
)
