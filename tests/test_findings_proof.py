"""Every piece of evidence leads to rows that are there."""

import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from judged import find
from made_run import facts_of

from tracetui.analysis import findings
from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.host import host_functions
from tracetui.analysis.operators import operators
from tracetui.analysis.tables.critical_path import CRITICAL_PATH, GAPS
from tracetui.analysis.tables.kernels import KERNELS, MEMOPS
from tracetui.analysis.tables.program import API_CALLS, HOST_FUNCTIONS, OPERATORS, RANGES
from tracetui.analysis.tables.table import Field
from tracetui.analysis.timeline.gaps import longest_gaps
from tracetui.app.tables import filters
from tracetui.app.tabs import NAMES
from tracetui.app.views import view_class
from tracetui.parsers import Trace

RULES = (
    "S1", "S2", "S5", "S6", "S7", "S8", "S10", "S12", "F1", "F2", "F4", "F6", "F7", "F11", "F12",
)  # fmt: skip
RECORDINGS = (
    "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz",
    "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz",
    "chrome/gpt_small_ctx256.trace.json.gz",
    "chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz",
    "chrome/kineto_samples/resnet50_num_workers_4.pt.trace.json.gz",
    "nsys/gpt_small_ctx256.sqlite.gz",
    "jax/h200.trace.json.gz",
)


def _tables(facts: Facts) -> dict[str, tuple[pl.DataFrame, tuple[Field, ...]]]:
    assert facts.path is not None
    path = facts.path.resources.with_columns(name="resource")
    return {
        "kernels": (facts.kernels, KERNELS.columns),
        "kernels:copies": (facts.memops, MEMOPS.columns),
        "operators": (operators(facts.sel), OPERATORS.columns),
        "host": (host_functions(facts.sel), HOST_FUNCTIONS.columns),
        "host:API calls": (facts.api, API_CALLS.columns),
        "host:ranges": (facts.ranges, RANGES.columns),
        "host:gaps": (longest_gaps(facts.sel, facts.host_model), GAPS.columns),
        "host:critical path": (path, CRITICAL_PATH.columns),
        "timeline": (facts.trace.device, ()),
    }


@pytest.mark.parametrize("name", RECORDINGS)
def test_evidence_leads_to_rows_and_numbers_hang_together(recording: Callable[[str], Trace], name: str) -> None:
    """No finding stakes more than the step, and each says how its number comes about and what it was compared with."""
    facts = facts_of(recording(name))
    said = find(facts, rules={rule: all_rules()[rule] for rule in RULES})
    # JAX's profiler tells too little of the host to judge
    assert bool(said.found) != name.startswith("jax/")
    tables = _tables(facts) if said.found else {}
    for found in (*said.found, *(each.finding for each in said.suppressed)):
        assert found.formula
        assert found.threshold
        assert found.advice
        assert found.evidence
        assert (found.impact_ns is None) == (found.ceiling_percent is None)
        if found.impact_ns is not None and found.ceiling_percent is not None:
            base = facts.step_ns if facts.model is None else facts.model.step_ns  # gains are of the median step
            assert 0 <= found.impact_ns < base
            assert found.ceiling_percent == pytest.approx(100 * found.impact_ns / base)
        for query in (item.query for item in found.evidence if item.query and tables):
            frame, columns = tables[query.tab]
            shown = frame.filter(filters.parse(query.filter).expression(columns, frame)) if query.filter else frame
            assert shown.height, (found.id, query)
            assert not query.row or query.row in shown["name"].cast(str).to_list(), (found.id, query)


def test_no_evidence_leads_to_the_page_that_one_came_from() -> None:
    """The Overview lists findings, so a way back to it is none."""
    for folder in Path(findings.__file__).parent.rglob("*.py"):
        for tab in re.findall(r'Query\(\s*"([^"]*)"', folder.read_text(encoding="utf-8")):
            name, _, table = tab.partition(":")
            assert name in set(NAMES) - {"overview", "findings"}, (folder, tab)
            assert not table or table in view_class(name).TABLES, (folder, tab)
