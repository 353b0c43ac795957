"""The first page: what is wrong with the recording first, then at most five pieces of advice of at most four lines."""

import re
from pathlib import Path
from typing import Any

import pytest
from laid_out import report_markdown, report_text
from msgspec import convert
from msgspec.structs import replace
from ncu_file import wide_table
from nsys_file import NsysFile
from sample_runs import VIM, report_of, run_of

from tracetui.analysis.checklist import check_report
from tracetui.analysis.dependencies.limit import likelier
from tracetui.analysis.findings.config import Config
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.verdict import verdict
from tracetui.analysis.report.model import FindingRow, PlaceRow
from tracetui.app.reports.finding_words import WORK_TIME, advice, brief, gain, is_remark, page_base, place_text
from tracetui.app.text.fitting import cell_width
from tracetui.parsers import open_path

RECORDINGS = (
    "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz",
    "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz",
    "chrome/gpt_small_ctx256.trace.json.gz",
    "chrome/kineto_samples/resnet50_num_workers_4.pt.trace.json.gz",
    "nsys/gpt_small_ctx256.sqlite.gz",
    "public/hta_cupti.json.gz",
)
UNDECIDED = {
    # what clean steps of the same program say
    "ranks4/ddp_gpu/rich/rank0.pt.trace.json.gz": "host",
    "ranks4/ddp_gpu/rich/rank2.pt.trace.json.gz": "gpu",
    "ranks4/ddp_host/rich/rank2.pt.trace.json.gz": "ranks",
    "ranks4/fsdp/rich/rank1.pt.trace.json.gz": "gpu",
}


def _rows(name: str) -> list[FindingRow]:
    found: Any = report_of(name)["run"]["traces"][0]["findings"]
    return convert(found, list[FindingRow])


OF_ONE_KIND = (
    "ncu/vim_full_raw.csv.gz",
    "ncu/scan_metrics_raw.csv.gz",
    "formats/ncu_rep/histogram.ncu-rep",
    "memory/gpt_memory_snapshot.pickle",
    "formats/tegrastats/agx_orin.log",
    "public/luatil_05.json.gz",
)
_SENTENCE = re.compile(r"(?<=[.:;]) ")


@pytest.mark.parametrize("name", [*RECORDINGS, *OF_ONE_KIND])
def test_a_page_begins_with_its_answer_and_says_nothing_twice(name: str) -> None:
    text = report_text(report_of(name))
    title, answer, *_ = (part for part in text.split("\n\n"))
    assert title.startswith("tracetui report")
    assert not answer.startswith(("File", "Findings", "Base"))
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    said = [
        each for part in paragraphs for each in _SENTENCE.split(part) if re.search(r"[a-z]{3} [a-z]{2,} .{20}", each)
    ]
    assert [each for each in dict.fromkeys(said) if said.count(each) > 1] == []


@pytest.mark.parametrize("name", RECORDINGS)
def test_gains_stand_in_their_order_and_remarks_last(name: str) -> None:
    rows = [row for row in _rows(name) if row.severity != "invalid"]
    gains = [(bool(row.doubted_by), -row.impact_us) for row in rows if row.impact_us]
    assert gains == sorted(gains)
    remarks = [is_remark(row) for row in rows]
    assert remarks == sorted(remarks)
    assert not {"S1", "S19", "K14", "V13"} & {row.id for row in rows}


@pytest.mark.parametrize("name", RECORDINGS)
def test_each_piece_of_advice_has_four_lines_at_most(name: str) -> None:
    rows = _rows(name)
    for width in (40, 74, 120):
        for lines in (3, 4):
            for row in advice(rows):
                texts = brief(row, width, lines=lines)
                assert 1 <= len(texts) <= lines
                assert max(map(cell_width, texts)) <= width
    text = report_text(report_of(name))
    page = text[text.index("Findings (") : text.index("they rest on: --all")].splitlines()
    assert len(page) <= 5 * 4 + sum(map(is_remark, rows)) + 2
    for row in advice(rows):
        assert row.impact_us is None or "Gains" in text or "Costs" in text


def test_all_of_them_stand_behind_a_fold_in_markdown() -> None:
    text = report_markdown(report_of(RECORDINGS[0]))
    short, _, whole = text.partition("<details>")
    assert "Gains 7.111 ms to 45.69 ms (6.91 to 44.4 %)" in short
    assert short.count("a 102.9 ms step") == 1
    assert "  - Why: " not in short
    assert "  - Why: " in whole


def _losing(folder: Path) -> Path:
    file = NsysFile()
    for n in range(10):
        at = 100_000 * n
        file.launch("k", (at, at + 10_000), (at + 20_000, at + 90_000))
        file.call("cudaLaunchKernel_v7000", 20_000_000 + at, 20_010_000 + at)
    return file.write(folder / "lost.sqlite")


def test_one_number_is_the_most_and_not_what_will_be_gained() -> None:
    """A change seldom takes away all that is counted."""
    row = next(row for row in _rows(RECORDINGS[0]) if row.impact_us)
    row = replace(row, impact_us=1000.0, impact_least_us=995.0, ceiling_percent=50.0, impact_of="step")
    assert gain(row) == "Gains at most 1.000 ms of a 2.000 ms step (50.0 %)"
    assert gain(replace(row, impact_least_us=500.0)) == "Gains 500.0 µs to 1.000 ms of a 2.000 ms step (25.0 to 50.0 %)"
    assert gain(row, WORK_TIME) == "Gains at most 1.000 ms of the run's 2.000 ms (50.0 %)"


def test_of_a_long_place_the_folders_go_before_the_operator() -> None:
    place = PlaceRow(
        frame="backward of train/nets/unet.py(12): forward", module=None, range=None, operator="ConvolutionBackward0",
        line=None, calls=3, us=5.0, percent=90.0, on_gpu=True,
    )  # fmt: skip
    assert place_text(place, 64) == "backward of unet.py(12): forward, 3 × ConvolutionBackward0"
    assert place_text(place, 75) == "backward of train/nets/unet.py(12): forward, 3 × ConvolutionBackward0"


def test_what_gains_are_known_from_is_said_once() -> None:
    text = report_text(report_of(RECORDINGS[0]))
    named = r"^Findings \(\d of \d; gains of a [\d.]+ ms step, as recorded\)$"
    assert re.search(named, text, re.MULTILINE)
    assert not re.search(r"Gains .* of a .* step", text)


def test_another_base_than_the_pages_is_named() -> None:
    row = next(row for row in _rows(RECORDINGS[0]) if row.impact_us)
    row = replace(row, impact_us=1000.0, impact_least_us=None, ceiling_percent=50.0, impact_of="step")
    named = page_base([row, row, replace(row, impact_of="mean_step")])
    assert named == "a 2.000 ms step"
    assert gain(row, named=named) == "Gains at most 1.000 ms (50.0 %)"
    assert gain(replace(row, ceiling_percent=25.0), named=named).endswith(" of a 4.000 ms step (25.0 %)")
    assert gain(replace(row, impact_of="mean_step"), named=named).endswith(" of a 2.000 ms mean step (50.0 %)")


def test_what_the_answer_says_gives_way_to_what_to_do() -> None:
    row = replace(_rows(RECORDINGS[0])[0], title="Rank 2 is late: 14.32 ms more GPU work", advice="Give all the same.")
    (first,) = advice([row], answer="In the program rank 2 has 14.32 ms more GPU work per step.")
    assert first.title == "Rank 2 is late. Give all the same."
    assert advice([row], answer=f"Not valid: {row.title} (V9).")[0].title == "Give all the same."
    assert advice([row], answer="Waits for the GPU.")[0].title == row.title


def test_an_invalid_recording_says_so_first_and_no_limit(tmp_path: Path) -> None:
    run = open_path(_losing(tmp_path), cache=False)
    facts = Facts(run)
    begins = "The recording is not valid: GPU events are missing for 50.0 % of the launches (V17). "
    said = verdict(facts)
    assert said.sentence.startswith(begins)
    assert (said.kind, said.why) == ("unknown", "invalid")
    assert "Waits for" not in said.sentence
    assert (check_report(run, facts.scope).waits_for or "").startswith(begins)
    silenced = verdict(facts, Config(silenced={"V17": "as agreed"}))
    assert silenced.sentence == facts.verdict.sentence


@pytest.mark.parametrize("name", UNDECIDED)
def test_where_it_can_not_be_told_the_likelier_side_is_said(name: str) -> None:
    facts = Facts(run_of(name))
    assert facts.verdict.kind == "unknown"
    assert facts.model is not None
    assert facts.verdict.why is not None
    side, *why = likelier(facts.model, facts.verdict.why)
    assert side == UNDECIDED[name]
    called = {"host": "the CPU", "gpu": "the GPU", "ranks": "other ranks"}[side]
    assert facts.verdict.sentence.startswith(f"Likelier waits for {called} than for ")
    assert all(part in facts.verdict.sentence for part in why)


def test_what_is_known_of_the_file_stands_below_the_answer() -> None:
    """The first screen of a report is for what is slow, why, and what to do."""
    lines = report_text(report_of(RECORDINGS[0])).splitlines()
    said = [
        next(at for at, line in enumerate(lines) if line.startswith(words)) for words in ("Waits", "Findings", "File")
    ]
    assert said == sorted(said)
    assert said[0] < 6


def test_counters_alone_begin_with_the_kernel_of_most_time() -> None:
    text = report_text(report_of(VIM / "ncu.csv"))
    first = " ".join(text.split("\n\n")[1].split())
    assert first == "The kernel with most of the measured time, selective_scan_fwd_kernel (27.1 %), waits for latency."
    assert text.index("Findings (") < text.index("File    ncu.csv")


def test_counters_without_their_units_row_name_no_kernel_of_most_time(tmp_path: Path) -> None:
    lines = wide_table({"gpu__time_duration.sum": "us", "sm__throughput.pct": "%"}, [("f", ["9", "50"])]).splitlines()
    (tmp_path / "raw.csv").write_text("\n".join([lines[0], *lines[2:]]))
    first = " ".join(report_text(report_of(tmp_path / "raw.csv")).split("\n\n")[1].split())
    assert first == "Which kernel takes most time can't be told: their durations are unknown."
