"""Drafts of whole reports: every chapter in its place, filled from the recording or saying what would fill it."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from as_json import as_structs, report
from msgspec import to_builtins
from msgspec.structs import replace
from page_reader import read_page
from reported import opened, reported
from sample_runs import GPT, SWEEP, VIM, recorded
from sweep_maker import write_sweep

from tracetui.analysis.base.api_names import READS_A_VALUE
from tracetui.analysis.base.number_format import format_us
from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.report.report import SECTIONS
from tracetui.app.cli.command import build_parser
from tracetui.app.cli.commands import report as options
from tracetui.app.cli.main import main
from tracetui.app.reports.content import sections
from tracetui.app.reports.content.drafts import LIKES, PIECES, SWEPT, Draft, like_parts, piece
from tracetui.app.reports.html.page import html
from tracetui.app.reports.layout import Layout
from tracetui.app.reports.markdown import markdown
from tracetui.app.reports.parts import Block
from tracetui.app.reports.text import text

ROOT = Path(__file__).resolve().parents[1]
MEMORY = "memory/gpt_memory_snapshot.pickle.gz"


def printed(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    capsys.readouterr()
    assert main(["report", *map(str, words)]) == 0
    return capsys.readouterr().out


def chapters(out: str) -> dict[str, str]:
    """What stands below each heading."""
    parts = re.split(r"\n([^\n]+)\n~{3,}\n", out)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_command_line_and_the_table_agree() -> None:
    assert tuple(LIKES) == options.LIKES


@pytest.mark.parametrize("name", LIKES)
def test_chapters_are_made_of_pieces_that_exist(name: str) -> None:
    assert set(LIKES[name].sections) <= set(SECTIONS)
    for one in (one for chapter in LIKES[name].chapters for one in (*chapter.pieces, *chapter.alone)):
        kind, _, which = one.partition(":")
        if kind in ("about", "sweep_about"):
            assert set(which.split(",")) <= set(all_rules())
        elif kind == "side_by_side":
            assert "counters" in LIKES[name].sections
        elif kind == "captures":
            assert "captures" in LIKES[name].sections
        elif kind in sections.SECTIONS:
            assert kind in LIKES[name].sections
        else:
            assert kind in PIECES or (kind in SWEPT and LIKES[name].sweep)


@pytest.mark.parametrize("name", LIKES)
def test_what_a_recording_lacks_is_said_with_a_command_that_there_is(name: str) -> None:
    draft, layout = Draft(as_structs(reported(recorded(MEMORY))).run), Layout()
    found = chapters(text(like_parts(draft, name, layout), layout))
    assert list(found) == [chapter.heading for chapter in LIKES[name].chapters]
    every = LIKES[name].chapters
    empty = [one for one in every if not any(piece(draft, name, layout) for name in (*one.pieces, *one.alone))]
    assert empty
    for chapter in empty:
        said = " ".join(found[chapter.heading].split())
        assert said == f"Not in this recording: {chapter.lacks}. To record it: {chapter.records}"
        words = shlex.split(chapter.records.partition(" (")[0])
        if words[0] == "tracetui":
            build_parser(words[1]).parse_args(words[1:])
        assert "tracetui profile" in chapter.records or "jax.profiler" in chapter.records
    headings = re.findall(r"^## (.*)$", markdown(like_parts(draft, name, layout), layout), re.MULTILINE)
    assert headings == [chapter.heading for chapter in every]
    page = read_page(html(like_parts(draft, name, layout), layout))
    assert [one.text for one in page.all("h2")] == ["Contents", *headings]


@cache
def gpt() -> Draft:
    return Draft(as_structs(report(opened(GPT))).run, None, ("tracetui", "profile", "gpt_small"))


def drafted(name: str) -> dict[str, str]:
    layout = Layout(10)
    return chapters(text(like_parts(gpt(), name, layout), layout))


def test_a_draft_as_with_torch_profiler() -> None:
    found, run = drafted("torch"), to_builtins(gpt().run.traces[0])
    assert "Recorded by: tracetui profile gpt_small" in found["How to Reproduce"]
    summary = found["Overview — Execution Summary"]
    assert f"The step: {format_us(run['overview']['step']['us'])} as recorded" in summary
    assert "Steps as recorded (where their time goes)" not in summary
    assert "Steps as recorded (where their time goes)" in found["Step Time Breakdown"]
    assert "Utilization%" in found["GPU Summary"]
    waits = found["Notable: where the host waits for the GPU"]
    asking = [row["name"] for row in run["operators"] if row["name"] in READS_A_VALUE]
    assert ("Operators that wait for the GPU" in waits) == bool(asking)
    assert all(name in waits for name in asking)
    assert "calls of nn.Module (with_stack=True)" in found["Module View"]
    assert re.search(
        r"S7 (info|warning|critical)|S7 looked|S7 could", found["Notable: where the host waits for the GPU"]
    )
    assert "backward_pass" in found["Call sequence per step"]
    assert format_us(run["kernels"][0]["total_us"]) in found["Kernel View — CUDA Kernels by Total Time"]
    titles = [row["title"] for row in run["findings"] if row["advice"] and row["id"][0] != "V"]
    directions = " ".join(found["Summary & Optimization Directions"].split())
    assert titles
    assert all(title in directions for title in titles)
    assert not any(row["title"] in directions for row in run["findings"] if row["id"][0] == "V")
    assert all(title in " ".join(found["Key findings"].split()) for title in titles)


def test_a_draft_as_the_guide_has_it() -> None:
    found = drafted("guide")
    assert "Not in this recording: counters." in found["NVIDIA Nsight Compute"]
    assert "this is no profile of JAX" in " ".join(found["JAX Profiling"].split())
    assert re.search(r"S\d+ (critical|warning|info): .*", found["Bottleneck 2: Many Small Kernels"])
    assert "K7 could not judge" in found["Bottleneck 5: Inefficient Memory Layout"]
    assert "Roof%" in found["The Roofline Model"]
    assert "Critical path" in found["1. What's the actual bottleneck?"]


def test_a_draft_of_counters_over_configurations(capsys: pytest.CaptureFixture[str]) -> None:
    both = [recorded("ncu/vim_full_raw.csv.gz"), recorded("ncu/scan_metrics_raw.csv.gz")]
    found = chapters(printed(capsys, *both, "--like", "ncu"))
    assert "Reports side by side" in found["Key Metrics Summary"]
    assert "Hardware counters (means of 44 launches" in found["Profiled Kernels"]
    assert "Advice of ncu" not in found["Profiled Kernels"]
    assert "a time line of the same run" in " ".join(found["Integration with Nsys Findings"].split())
    assert "K10 warning" in found["Key Insights"]


def test_a_draft_over_models_and_contexts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = recorded("nsys/gpt_small_ctx256.sqlite.gz")
    for name in ("small_ctx256", "small_ctx512"):
        (tmp_path / f"{name}.sqlite.gz").symlink_to(source)
    found = chapters(printed(capsys, tmp_path, "--like", "nsys", "--no-cache"))
    assert re.search(r"ctx256 +\d", found["How to run"])
    assert "forward" in found["Question (a): Forward Pass Timing"]
    assert "Top kernel of each" in found["Question (b): Most Time-Consuming CUDA Kernels"]
    assert "GPU time by category" in found["Question (c): Non-Matrix-Multiply Kernels in Forward Pass"]
    assert "V13" in found["Question (d): Training Step Breakdown"]
    assert "Softmax and matrix products" in found["Question (e): Attention Layer Analysis"]


def test_a_single_recording_fills_what_it_can_of_a_draft_over_several() -> None:
    found = drafted("nsys")
    assert "Recorded by: tracetui profile gpt_small" in found["How to run"]
    assert "backward_pass" in found["Question (a): Forward Pass Timing"]
    top = gpt().run.traces[0].kernels[0]
    assert format_us(top["total_us"]) in found["Question (b): Most Time-Consuming CUDA Kernels"]
    assert "Not in this recording" in found["Question (e): Attention Layer Analysis"]


def test_a_draft_of_variants(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    points = [
        ({"batch": batch, "keep": keep}, [1000.0 * batch * keep] * 3, 1e9 * batch * keep, 5)
        for batch in (1, 4)
        for keep in (1.0, 0.5)
    ]
    write_sweep(tmp_path, points)
    out = printed(capsys, tmp_path, "--like", "variants")
    found = chapters(out)
    assert out.startswith(f"tracetui report: {tmp_path.name}\n")
    assert "keep 0.5 against 1" in found["Problem Overview"]
    assert re.search(r"4 +1 +4\.000 ms", found["Phase 3: Batch Size Sweep"])
    assert "D9" in found["Expected Optimizations"]
    assert "Not in this recording: counters." in found["Phase 2: Deep Kernel Analysis (ncu)"]


def test_a_draft_of_variants_is_of_the_run_that_it_asks_about(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the reduction does not pay, at batch 1, not where it does; `--run` picks another."""
    losing = chapters(printed(capsys, SWEEP, "--like", "variants"))["Hypothesis 1: Kernel Launch Overhead"]
    assert "S2 critical" in losing
    picked = printed(capsys, SWEEP, "--like", "variants", "--run", "batch=16,keep=0.1/repeat-3")
    assert "S2, S12 looked and found nothing" in chapters(picked)["Hypothesis 1: Kernel Launch Overhead"]


def test_a_section_of_another_tool_says_where_it_is_from() -> None:
    run = as_structs(reported(recorded(MEMORY))).run
    own = run.traces[0]
    other = replace(own, source=replace(own.source, kind="chrome", path="/x/first.json"), memory=None)
    draft = Draft(replace(run, traces=[other, own], main=0))
    said = text(piece(draft, "memory", Layout()), Layout())
    assert said.startswith("From gpt_memory_snapshot.pickle")
    assert not any(isinstance(part, Block) for part in piece(draft, "gpu", Layout()))


@pytest.mark.parametrize(
    "more", [("--format", "json"), ("--format", "csv"), ("--section", "kernels"), ("--by", "category")]
)
def test_a_draft_has_its_own_sections_and_is_for_people(capsys, more) -> None:
    assert main(["report", str(VIM), "--like", "torch", *more]) == 2
    assert "--like" in capsys.readouterr().err


def test_the_page_has_every_chapter_and_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "report.md").read_text("utf-8")
    for name, like in LIKES.items():
        assert f"| `{name}` | {'; '.join(chapter.heading for chapter in like.chapters)} |" in page
        assert f"--like {name}`" in page
        assert set(re.findall(r"\b[VSFKGD]\d+\b", page)) <= set(all_rules())
    shown = re.search(r"```sh\ntracetui report (\S+) --like ncu\n```\n\n```text\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    assert shown[2] in printed(capsys, ROOT / shown[1], "--like", "ncu")
