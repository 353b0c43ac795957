"""What makes reports of small recordings quick gives what the plain way gives."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from as_json import report
from hypothesis import given
from hypothesis import strategies as st
from laid_out import report_text

from tracetui.analysis.attribution.calltree import add_up, call_tree
from tracetui.analysis.base import names
from tracetui.analysis.base.remembered import kept, latest
from tracetui.analysis.findings import catalogue
from tracetui.analysis.host import CALLS
from tracetui.analysis.report.beside import ON_REQUEST, SOURCE_LINES
from tracetui.analysis.report.report import SECTIONS
from tracetui.analysis.tables.registry import OF_RUNS
from tracetui.app.reports.content.run import printed_sections
from tracetui.parsers import Run, open_path
from tracetui.parsers.names.range_roles import NUMBERED, ROLES, any_of_role, role_of

SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "vim_tiny"


@pytest.fixture(scope="module")
def run() -> Run:
    return open_path(SAMPLE)


@pytest.mark.parametrize("sections", [None, ("overview",), ("findings", "memory"), ("counters",), ("ranks", "kernels")])
def test_what_the_text_leaves_out_changes_nothing_of_it(run: Run, sections: tuple[str, ...] | None) -> None:
    whole = report(run, sections=sections)
    short = report(run, sections=sections, sections_of=printed_sections)
    assert report_text(short, limit=10) == report_text(whole, limit=10)


def test_another_tools_recording_has_no_section_computed_that_is_not_printed(run: Run) -> None:
    traces = report(run, sections_of=printed_sections)["run"]["traces"]
    there = {trace["source"]["kind"]: {name for name in SECTIONS if name in trace} for trace in traces}
    assert there["nsys"] == set()
    assert there["ncu"] == {"counters", "findings"}
    assert there["memory_snapshot"] == {"memory", "findings"}
    assert there["chrome"] == set(SECTIONS) - {"captures", *OF_RUNS, *ON_REQUEST, SOURCE_LINES}


@pytest.mark.parametrize("kinds", [CALLS, ("operator", "module"), ("runtime",)])
def test_a_chrome_traces_tree_stands_in_its_frame(run: Run, kinds: tuple[str, ...]) -> None:
    sought, stood = call_tree(run.main.host, kinds), call_tree(run.main.host, kinds, nested=True)
    for field in ("rows", "start", "duration", "parent", "last"):
        assert np.array_equal(getattr(sought, field), getattr(stood, field)), field


WORDS = st.sampled_from(
    [
        "warm",
        "up",
        "WarmUp",
        "warmup",
        "Optimizer",
        "opt",
        "zero",
        "loss",
        "eval",
        "bwd",
        "::",
        "step",
        "qk",
        "#1",
        "\n",
    ]
)


@given(st.lists(st.lists(WORDS, min_size=1, max_size=5).map("".join), max_size=4), st.sampled_from(sorted(ROLES)))
def test_a_role_is_sought_in_all_names_as_in_each(texts: list[str], role: str) -> None:
    plain = any(role in (role_of(text), role_of(NUMBERED.sub("", text))) for text in texts)
    assert any_of_role(texts, role) == plain


def test_names_are_asked_once_each_and_null_never() -> None:
    texts = ["a", None, "bb", "a", "", None, "ccc"]
    asked: list[str] = []
    column = pl.Series(texts, dtype=pl.Categorical())
    found = names.matching(column, lambda name: asked.append(name) or len(name) > 1)  # type: ignore[func-returns-value]
    assert found.tolist() == [text is not None and len(text) > 1 for text in texts]
    assert sorted(asked) == ["", "a", "bb", "ccc"]
    assert names.mapped(column, str.upper, "none").to_list() == ["none" if t is None else t.upper() for t in texts]
    nothing = pl.Series([None, None], dtype=pl.Categorical())
    assert names.matching(nothing, lambda name: True).tolist() == [False, False]
    assert names.mapped(nothing, str.upper, "none").to_list() == ["none", "none"]


@pytest.mark.parametrize("large", [1, 1 << 40, 1 << 60])
def test_sums_are_exact(large: int) -> None:
    group, values = np.array([0, 2, -1, 0, 2, 2]), np.array([large, 3, 5, large + 1, 7, 11])
    assert add_up(group, values, 4).tolist() == [2 * large + 1, 0, 21, 0]
    assert add_up(group, -values, 4).tolist() == [-2 * large - 1, 0, -21, 0]


def test_small_results_stay_with_what_they_are_of_and_large_ones_go() -> None:
    class Recording:
        pass

    calls: list[object] = []
    small = kept(lambda of: calls.append(of) or len(calls))  # type: ignore[func-returns-value]
    one, other = Recording(), Recording()
    assert [small(one), small(other), small(one), small(other)] == [1, 2, 1, 2]

    large = latest(lambda of, more=0: np.full(3, more))
    first = large(one, 1)
    assert large(one, 1) is first
    assert large(one, more=1) is not first
    assert large(one, 2).tolist() == [2, 2, 2]
    alive = large(other)
    assert large(other) is alive
    del other, calls[:]
    gc.collect()
    assert large(one).tolist() == [0, 0, 0]


def test_the_rules_of_a_run_come_in_the_order_of_all() -> None:
    of_run = [id for id, rule in catalogue.all_rules("run").items() if rule.subject == "run"]
    assert of_run == [id for id, rule in catalogue.all_rules().items() if rule.subject == "run"]


def test_a_report_of_one_section_imports_nothing_of_the_others() -> None:
    program = (
        "import sys\n"
        "from tracetui.app.cli.main import main\n"
        f"main(['report', {str(SAMPLE / 'trace.pt.trace.json.gz')!r}, '--section', 'overview'])\n"
        "print(*sorted(name for name in sys.modules if name.startswith('tracetui.')), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = set(done.stderr.split())
    assert "tracetui.app.charts.gantt" in imported, "the picture of the section itself"
    assert not imported & {
        "tracetui.analysis.findings.engine",
        "tracetui.analysis.findings.catalogue",
        "tracetui.app.reports.content.findings",
        "tracetui.app.reports.content.memory",
        "tracetui.app.reports.content.captures",
        "tracetui.app.charts.roofline",
        "tracetui.app.charts.icicle",
        "tracetui.app.charts.histogram",
        "tracetui.app.charts.area",
    }
