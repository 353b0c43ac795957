"""The table of every recording in benchmarks/trust.md says what the program says of those that are here."""

import pytest
from read_files import DOC, page, row, said
from sample_runs import recorded, run_of

SMALL = (
    "chrome/cudagraph_replay.trace.json.gz", "jax/h200.trace.json.gz", "ncu/scan_metrics_raw.csv.gz",
    "ncu/vim_basic_stdout_details.csv.gz", "nsys/graph_node.sqlite.gz", "nsys/graph_whole.sqlite.gz",
    "ops/ops.ncu.csv.gz", "ops/ops.sqlite.gz", "ops/ops.trace.json.gz",
)  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_the_row_of_a_recording_is_what_the_program_says(name: str) -> None:
    assert said(run_of(name), name) in DOC.read_text(encoding="utf-8").splitlines()


def test_what_is_no_recording_is_refused_in_the_words_of_the_table() -> None:
    made = row(recorded("ops/truth.csv"), "ops/truth.csv")
    assert "refused: not a trace that tracetui knows" in made
    assert made in DOC.read_text(encoding="utf-8").splitlines()


def test_only_the_table_is_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    text = DOC.read_text(encoding="utf-8")
    monkeypatch.setattr("read_files.table", lambda _: "| new |\n")
    made = page(text)
    assert "| new |" in made
    assert made.startswith(text[:2000])
