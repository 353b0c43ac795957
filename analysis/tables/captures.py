"""Captures side by side in a form to plot: a row per capture and phase, and what each phase and capture is made of."""

from tracetui.analysis.tables.table import EVERY, Field, Table

WHOLE = "all"
"""The phase that stands for the whole capture."""
_NAME = Field("name", "Capture", about="path of the capture below the folder, without suffixes")
_PHASE = Field(
    "phase", "Phase",
    about="`all` of the capture, or what ranges are about: `step`, `forward`, `backward`, `optimizer`, `loss`, "
    "`attention`, `softmax`, `matmul`, `evaluation`, `warmup`",
)  # fmt: skip

PHASES = Table(
    "capture_phases",
    "Captures by phase",
    "phases",
    (
        _NAME,
        _PHASE,
        Field("instances", "Ranges", "count", null=True, about="number of ranges of the phase"),
        Field("host_mean_ns", "CPU", "time", null=True, about="mean time that one range is open"),
        Field(
            "launched_span_mean_ns", "Projected", "time", null=True,
            about="mean time from the start of the first GPU work that any thread launched in one range to the end of "
            "the last",
        ),
        Field(
            "launched_mean_ns", "GPU work", "time", null=True,
            about="mean GPU time of what any thread launched while one range was open",
        ),
        Field("host_total_ns", "CPU total", "time", null=True, about="of all ranges; of `all`, the whole recording"),
        Field("launched_ns", "GPU total", "time", null=True, about="of all ranges; of `all`, all GPU work in scope"),
        Field(
            "launched_ops", "GPU ops", "count", null=True,
            about="kernels, copies and fills launched in them; of `all`, kernels",
        ),
        Field("host_percent", "CPU%", "percent", null=True, about="share of the steps' host time inside steps"),
        Field(
            "launched_percent", "GPU%", "percent", null=True,
            about="share of the GPU time of what was launched inside steps",
        ),
        Field(
            "outcome", "Outcome",
            about="`measured`; `cut` by running out of memory; `out of memory` or `not read`: there are no numbers",
        ),
        Field("reason", "Reason", null=True, about="what the log or run.json says, or why the file was not read"),
    ),
    data=EVERY,
    reports=(
        "phase", "instances", "host_mean_ns", "launched_span_mean_ns", "launched_mean_ns", "host_percent",
        "launched_percent",
    ),
    base="mean of one range; GPU: launched by any thread while it was open; %: of what lies inside steps",
    section="phases",
    page=False,
)  # fmt: skip
CATEGORIES = Table(
    "capture_categories",
    "Captures by phase and kind of work",
    "kinds",
    (
        _NAME,
        _PHASE,
        Field("category", "Kind", about="kind of work, judged by the kernel's name; else `memcpy`, `memset`"),
        Field("calls", "Calls", "count", about="number of launches"),
        Field("ns", "GPU time", "time", about="GPU time of all of them"),
        Field("mean_ns", "Each", "time", null=True, about="the same per range of the phase; none of `all`"),
        Field("percent", "%", "percent", null=True, about="share of the phase's GPU time"),
    ),
    data=EVERY,
    reports=("phase", "category", "calls", "ns", "mean_ns", "percent"),
    base="GPU time launched by any thread in ranges of the phase",
    section="categories",
    page=False,
)
TOP_KERNELS = Table(
    "capture_top_kernels",
    "Top kernel of each kind",
    "kernels",
    (
        _NAME,
        Field("category", "Kind", about="kind of work, judged by the name"),
        Field("kernel", "Kernel", flex=True, short="short_name", about="the one of its kind with most GPU time"),
        Field("short_name", screen=False, about="name without namespaces, parameters and most template arguments"),
        Field("calls", "Calls", "count", about="number of launches"),
        Field("total_ns", "Time", "time", about="GPU time of all of them"),
        Field("mean_ns", "Mean", "time", about="mean of a launch"),
        Field("percent", "%", "percent", null=True, about="share of the capture's GPU time"),
    ),
    data=EVERY,
    reports=("category", "total_ns", "percent", "calls", "mean_ns", "kernel"),
    base="share of GPU time",
    section="top_kernels",
    page=False,
)
