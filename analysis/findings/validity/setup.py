"""Is the program's setup part of what is analysed?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.base import names
from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.declared.rule import looks_for
from tracetui.analysis.findings.declared.validity import V29
from tracetui.parsers.names import kernel_names

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.declared.rule import Limits

_PREPARES = re.compile(
    r"fill_?(functor|kernel)|fill_|distribution_|arange|curand|philox|uniform_|normal_kernel|random_|memset|_eye",
    re.IGNORECASE,
)
"""Kernels that fill memory with constants or random numbers."""
_INITIALISES = re.compile(
    r"^aten::(uniform_|normal_|trunc_normal_|kaiming_\w+|xavier_\w+|orthogonal_?|erfinv_)$"
    r"|(^|/)torch/nn/init\.py\(\d+\): |: (reset_parameters|_init_weights|load_state_dict|from_pretrained)$"
)
"""Operators and functions that make or load weights."""
_NAMED_SETUP = re.compile(
    r"(?<![a-z])(initiali[sz](e|ing|ation)|init|set ?up|(load|build|create)[ _]?(model|weights|checkpoint))(?![a-z])",
    re.IGNORECASE,
)
"""Ranges that people put around setup."""
_LOADS_CODE = re.compile(r"LibraryLoad|ModuleLoad|CtxCreate|PrimaryCtxRetain", re.IGNORECASE)
LEAST_COPIES = 20
"""So many copies to the GPU before anything computes are a model's weights, one by one, and no batch."""


class Setup(Struct, frozen=True):
    """What comes before the first kernel that computes; times in ns."""

    begin: int
    end: int
    initialisers: int
    """Calls and ranges that make, load or fill weights."""
    example: str
    """The name of the longest of them; "" without any."""
    loads: int
    """Calls that load GPU code or create a context."""
    copies: int
    """Copies from the host to the GPU."""

    @property
    def told(self) -> bool:
        """Whether something shows that this is setup: a program may also wait, or copy its input, first."""
        return bool(self.initialisers or self.loads or self.copies >= LEAST_COPIES)


def before_computing(facts: Facts) -> Setup | None:
    """The time from the first GPU work to the first kernel that does not just copy or fill; None without kernels."""
    span, launched = facts.sel.work_span, facts.launches
    computes = names.matching(launched["name"], _computes)
    first = launched["start"].filter(pl.Series(computes)).min()
    if span is None or first is None:
        return None
    end = int(first)
    host = facts.trace.host.select("kind", "name", "start", "duration").filter(pl.col("start") < end)
    by_torch = names.matching(host["name"], lambda name: _INITIALISES.search(name) is not None)
    by_range = names.matching(host["name"], lambda name: _NAMED_SETUP.search(name) is not None)
    calls = host["kind"].is_in(["operator", "python"])
    made = host.filter((pl.Series(by_torch) & calls) | (pl.Series(by_range) & (host["kind"] == "annotation")))
    loads = names.matching(host["name"], lambda name: _LOADS_CODE.search(name) is not None)
    inside = (host["start"] >= span[0]).to_numpy()
    longest = made.sort("duration", descending=True)["name"].cast(pl.String)
    return Setup(
        span[0],
        end,
        made.height,
        str(longest[0]) if made.height else "",
        int(np.count_nonzero(loads & inside)),
        _copied(facts, end),
    )


def _computes(name: str) -> bool:
    return _PREPARES.search(name) is None and kernel_names.category(name) != "copy"


def _copied(facts: Facts, end: int) -> int:
    copies = facts.sel.device.select("kind", "name", "start")
    copies = copies.filter((pl.col("kind") == "memcpy") & (pl.col("start") < end))
    return int(names.matching(copies["name"], lambda name: "HtoD" in name or "Host-to-Device" in name).sum())


@looks_for(V29)
def setup_inside(facts: Facts, limits: Limits) -> Finding | None:
    if facts.sel.steps.height:
        return None
    found, span = before_computing(facts), facts.sel.work_span
    if found is None or span is None or not found.told:
        return None
    lasts, whole = found.end - found.begin, span[1] - span[0]
    share = 100 * lasts / whole
    if share < limits.share_percent:
        return None
    return Finding(
        "critical" if share >= limits.critical_percent else "warning",
        f"The first {words.percent(share)} of the analysed time are setup: no kernel computes anything yet",
        (
            Evidence("from the first GPU work to the first kernel that computes", lasts, "ns", Query("timeline")),
            Evidence("from first to last GPU work", whole, "ns", Query("timeline")),
            Evidence("copies to the GPU before it", found.copies, query=Query("kernels:copies")),
            *(
                (Evidence(f"calls that make or load weights before it, such as {found.example}", found.initialisers),)
                if found.initialisers
                else ()
            ),
            *((Evidence("calls that load GPU code in it", found.loads),) if found.loads else ()),
        ),
        f"{words.ns(lasts)} of {words.ns(whole)} = {words.percent(share)}",
        advice=facts.program.say(
            pytorch="Call profiler.step() after each step, or put a record_function range around it; or start the"
            " profiler after the model is on the GPU and has run once (torch.profiler.schedule).",
            other="Put an NVTX range around each step, or start the recording after the setup (cudaProfilerStart with"
            " nsys profile --capture-range=cudaProfilerApi).",
        ),
    )
