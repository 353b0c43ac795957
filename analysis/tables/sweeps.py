"""Variants of a sweep against their baselines as flat tables: speed-up at each size, kinds of work that change."""

from tracetui.analysis.tables import comparison
from tracetui.analysis.tables.table import EVERY, Field, Table

_OF = (
    Field(
        "comparison", "Variant", width=14, priority=3, flex=True,
        about="the variant against its baseline, and what both share",
    ),
    Field("axis", "Axis", screen=False, about="what the two differ in"),
    Field("baseline", "Baseline", type="number", screen=False, about="the baseline's value; a text or a number"),
    Field("variant", "Variant", type="number", screen=False, about="the variant's value"),
    Field("x_axis", "Size", screen=False, null=True, about="the axis of sizes; none where the points have no size"),
    Field(
        "x", "at", width=6, priority=0, type="number",
        about="the size at which both were run; `all` without an axis",
    ),
)  # fmt: skip
_KEYS = tuple(field.name for field in _OF)

SPEEDUPS = Table(
    "sweep_speedups",
    "Speed-up",
    "sizes",
    (
        *_OF,
        Field("baseline_ns", "baseline", "time", about="the baseline's median step"),
        Field("variant_ns", "variant", "time", about="the variant's median step"),
        Field("speedup", "speed-up", "number", about="time of the baseline / time of the variant"),
        Field("speedup_error", "±", "number", null=True, about="one standard error of it, from the repeats"),
        Field(
            "possible_speedup", "possible", "number", null=True,
            about="FLOPs of the baseline / FLOPs of the variant: the speed-up that the removed work allows",
        ),
        Field(
            "work_removed_percent", "less work", "percent", null=True, about="FLOPs removed, share of the baseline's"
        ),
        Field(
            "lost_percent", "lost", "percent", null=True,
            about="share of the possible speed-up that was not reached; below 0 where it was exceeded",
        ),
        Field("within_noise", "noise", "flag", null=True, about="whether the difference may be chance"),
        Field("kernels_delta", "kernels", "number", null=True, about="more kernels per step than the baseline"),
        Field("gpu_delta_ns", "GPU", "delta", null=True, about="more GPU time per step than the baseline"),
        Field("step_delta_ns", "step", "delta", null=True, about="more time per step than the baseline"),
    ),
    data=EVERY,
    section="comparisons",
    page=False,
)  # fmt: skip
KINDS = Table(
    "sweep_kinds",
    "Kinds of work",
    "kinds",
    (
        *_OF,
        comparison.KINDS.field("kind"),
        Field(
            "status", "Status", width=9, priority=1,
            about="`added`: only in the variant; `removed`: only in the baseline; `changed`; `same`: as many launches, "
            "and a difference within 1 %",
        ),
        Field(
            "delta_ns", "difference", "delta", width=9, priority=0, main=True,
            about="time of the variant minus time of the baseline",
        ),
        Field(
            "baseline_ns", "baseline", "time", priority=2, about="GPU time per step, the median over the repeats"
        ),
        Field("variant_ns", "variant", "time", priority=2, about="the same of the variant"),
        Field(
            "baseline_calls", "base calls", "number", width=8, priority=3,
            about="launches per step, the median over the repeats",
        ),
        Field("variant_calls", "calls", "number", width=7, priority=1, about="the same of the variant"),
        Field(
            "name", "Kernel", width=12, priority=4, flex=True, short="short_name",
            about="the kernel of the kind with most time, in the variant where it has the kind",
        ),
        comparison.KINDS.field("short_name"),
    ),
    data=(
        *_KEYS, "kind", "status", "baseline_calls", "variant_calls", "baseline_ns", "variant_ns", "delta_ns", "name",
        "short_name",
    ),
    base="per step",
    section="kinds",
)  # fmt: skip
