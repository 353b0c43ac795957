"""Every piece of evidence leads to rows that are there."""

import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from made_run import facts_of

from tracetui.analysis import findings
from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.engine import findings_of
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

RECORDINGS = (
    "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz", "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz",
    "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz", "chrome/gpt_small_ctx256.trace.json.gz",
    "chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz", "chrome/cudagraph_replay.trace.json.gz",
    "chrome/kineto_samples/resnet50_num_workers_4.pt.trace.json.gz", "chrome/forms/amd_mi250_rocm.json.gz",
    "chrome/forms/cpu_only_rank34.json.gz", "ncu/vim_full_raw.csv.gz", "nsys/gpt_small_ctx256.sqlite.gz",
    "jax/h200.trace.json.gz", "memory/gpt_memory_snapshot.pickle.gz", "broken/empty_events.json",
    "broken/missing_dur.json", "broken/only_metadata_events.json", "broken/overlapping_same_thread.json",
)  # fmt: skip


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
def test_no_rule_fails_and_evidence_leads_to_rows(recording: Callable[[str], Trace], name: str) -> None:
    """No finding stakes more than the step, and each says how its number comes about and what it was compared with."""
    facts, errors = facts_of(recording(name)), list[Exception]()
    said = findings_of(facts, on_error=errors.append)
    assert not errors
    assert {each.id for each in said.abstained} | set(said.checked) == set(all_rules("run"))
    tables = _tables(facts) if facts.path is not None else {}
    for found in (*said.found, *(each.finding for each in said.suppressed)):
        text = f"{found.title} {found.formula} {found.advice} {found.threshold}"
        assert all((found.title, found.formula, found.threshold, found.advice, found.evidence)), found.id
        assert not re.search(r"\bnan\b|\binf\b|None|\{|\}", text), text
        assert found.ceiling_percent is None or 0 <= found.ceiling_percent <= 100
        if found.impact_ns is not None and found.ceiling_percent is not None and found.impact_of == "step":
            base = facts.step_ns if facts.model is None else facts.model.step_ns  # gains are of the median step
            assert 0 <= found.impact_ns <= base
            assert found.ceiling_percent == pytest.approx(100 * found.impact_ns / base)
        for item in found.evidence:
            assert item.value == item.value
            if (query := item.query) is None:
                continue
            tab, _, table = query.tab.partition(":")
            assert not table or table in view_class(tab).TABLES  # type: ignore[attr-defined]
            wanted = filters.parse(query.filter)
            if query.tab in tables:
                frame, columns = tables[query.tab]
                shown = frame.filter(wanted.expression(columns, frame)) if query.filter else frame
                assert shown.height, (found.id, query)
                assert not query.row or query.row in shown["name"].cast(str).to_list(), (found.id, query)


def test_no_evidence_leads_to_the_page_that_one_came_from() -> None:
    """The Overview lists findings, so a way back to it is none."""
    for folder in Path(findings.__file__).parent.rglob("*.py"):
        for tab in re.findall(r'Query\(\s*"([^"]*)"', folder.read_text(encoding="utf-8")):
            name, _, table = tab.partition(":")
            assert name in set(NAMES) - {"overview", "findings"}, (folder, tab)
            assert not table or table in view_class(name).TABLES, (folder, tab)
