"""Saving and copying ask first, and say what they did."""

import os
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from rank_summaries import Made
from sample_runs import FP16, FP32, VIM
from tui_pilot import opened, press, screen_text, settle, write

from tracetui.analysis.ranks.job import combine
from tracetui.analysis.scope import Scope
from tracetui.analysis.tables.table import Field
from tracetui.app.charts.bars import Bar, bars_svg
from tracetui.app.charts.slide import TALL, WIDE, slide
from tracetui.app.cli.command import build_parser
from tracetui.app.cli.main import main
from tracetui.app.reports.content.pictures import PICTURES, job_heat
from tracetui.app.reports.open_command import TABS, given, lines, open_command, spelled
from tracetui.app.screen.shell import too_small
from tracetui.app.tables import export
from tracetui.app.tabs import NAMES


async def test_a_picture_is_asked_for_and_replaces_nothing_unasked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with opened(FP32) as (app, pilot):
        await press(pilot, "e", "escape")
        assert list(tmp_path.iterdir()) == []
        await press(pilot, "e", "enter")
        kept = tmp_path / "vim_tiny_fp32_bs4-overview.svg"
        text = kept.read_text()
        assert "Findings" in text
        assert "save" not in text
        await press(pilot, "j", "e", "enter")
        assert "is there already; Enter replaces it, Esc keeps it: vim_tiny_fp32_bs4-overview" in screen_text(app)
        await press(pilot, "escape")
        assert kept.read_text() == text
        await press(pilot, "T", "e", "ctrl+u")
        await write(pilot, "lanes.png")
        await press(pilot, "enter")
        assert "a picture of this view is .svg" in screen_text(app)
        await press(pilot, "e", "ctrl+u")
        await write(pilot, "lanes.svg")
        await press(pilot, "enter")
        assert "ProfilerStep" in (tmp_path / "lanes.svg").read_text()
        assert len(list(tmp_path.iterdir())) == 2


async def test_typing_replaces_the_suggested_name_and_end_keeps_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with opened(FP32) as (app, pilot):
        await press(pilot, "2", "e")
        line = app.shell.prompt.line
        suggested = line.value
        assert line.selected_text == suggested
        await press(pilot, *"out")
        assert line.value == "out"
        await press(pilot, "enter")
        assert (tmp_path / "out.csv").is_file()  # the suggestion's form
        for key in ("end", "right"):
            await press(pilot, "e", key, "backspace", "backspace", "backspace", *"md")
            assert line.value == suggested.removesuffix("csv") + "md"
            await press(pilot, "escape")
        await press(pilot, "e")
        await write(pilot, "all.md")
        await press(pilot, "enter", "/", *"gemm")
        assert line.value == "gemm"
        await press(pilot, "enter", "/", "x")  # what the user wrote goes on
        assert line.value == "gemmx"
        assert {path.name for path in tmp_path.iterdir()} == {"out.csv", "all.md"}


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ((20, 5), "20x5 needs 40x10"), ((80, 5), "too small 80x5, needs 40x10  q quit"), ((40, 10), ""),
    ],
)  # fmt: skip
def test_what_is_too_small_is_said(size, said):
    assert "  ".join(" ".join(filter(None, hint)) for hint in too_small(*size)) == said


async def test_the_footer_says_that_the_terminal_is_too_small():
    async with opened(FP32, size=(20, 5)) as (app, _):
        assert screen_text(app).split("\n")[-1] == " 20x5 needs 40x10"


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ((2, 2), "ne/ed"), ((1, 24), "n/e/e/d/s//4/0/x/1/0"),
    ],
)  # fmt: skip
async def test_a_screen_of_one_column_says_what_it_needs_and_lives(size, said):
    async with opened(FP32, size=size) as (app, pilot):
        assert screen_text(app).rstrip("\n").replace("\n", "/") == said
        await pilot.resize_terminal(80, 24)
        await press(pilot, "2")
        table = screen_text(app)
        for key in ("1", "2", "c", ":", "ctrl+p", "?"):
            await press(pilot, key)
            whole = screen_text(app)
            assert "needs" not in whole, key
            for narrow in (size, (80, 24)):
                await pilot.resize_terminal(*narrow)
                await settle(pilot)
            assert screen_text(app) == whole, key
            await press(pilot, *(["2"] if key in "12" else ["escape"]))
            assert screen_text(app) == table, key


SVG = "{http://www.w3.org/2000/svg}"


def read(svg: str) -> ElementTree.Element:
    """The picture as a document of its own, which asks for nothing from elsewhere."""
    whole = ElementTree.fromstring(svg)
    assert whole.tag == f"{SVG}svg"
    assert (whole.get("width"), whole.get("height")) == (str(WIDE), str(TALL))
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@font-face|@import|url\(|var\(|<script|href", svg)
    return whole


def said(whole: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in whole.iter(f"{SVG}text")]


def at_the_foot(texts: list[str]) -> str:
    """The command at the foot, which may take several lines."""
    begins = next(at for at, text in enumerate(texts) if text.startswith("tracetui open "))
    return " ".join(texts[begins:])


@pytest.mark.parametrize("name", ["timeline", "kernels", "durations", "modules", "operators"])
def test_a_report_as_a_picture(name, capsys):
    assert main(["report", str(FP32), "--format", "svg", "--section", name]) == 0
    texts = said(read(capsys.readouterr().out))
    assert texts[-1] == f"tracetui open {shlex.quote(str(FP32))} --tab {TABS[name]}"
    assert any("selective_scan_fwd_kernel" in text for text in texts) == (name in ("kernels", "durations"))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--section", "nothing"], "no picture named 'nothing'"),
        (["--section", "kernels", "modules"], "svg is one picture"),
        (["--section", "counters"], "has nothing to draw for --section counters"),
        (["--section", "ranks"], "has nothing to draw for --section ranks"),
    ],
)
def test_what_has_no_picture_says_so(options, line, capsys):
    assert main(["report", str(FP32), "--format", "svg", *options]) == 2
    assert line in capsys.readouterr().err


def test_a_picture_in_pixels_is_written_to_a_file(tmp_path):
    pytest.importorskip("cairosvg")
    target = tmp_path / "kernels.png"
    assert main(["report", str(FP32), "--format", "png", "--section", "kernels", "--output", str(target)]) == 0
    content = target.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert (int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")) == (1920, 1080)
    assert main(["report", str(FP32), "--format", "png", "--section", "kernels", "--output", str(target)]) == 1


def test_bars_are_as_long_as_their_amounts_and_names_are_text():
    bars = [Bar("a <b> & c", 200.0, ("200 ns",)), Bar("half", 100.0, ("100 ns",)), Bar("less", -50.0, ("-50 ns",))]
    whole = read(slide(bars_svg(bars, ("Time",), "what"), "title </text>", "said", "foot"))
    shapes = [shape for shape in whole.iter(f"{SVG}rect") if shape.get("class") in ("gpu", "late")]
    assert [float(shape.get("width")) / float(shapes[0].get("width")) for shape in shapes] == pytest.approx(
        [1, 0.5, 0.25], abs=0.01
    )
    assert shapes[2].get("class") == "late"
    assert "a <b> & c" in said(whole)
    assert "title </text>" in said(whole)


def test_the_late_rank_is_dark_in_the_heat_map_and_its_name_marked():
    job = combine(Made(ranks=200, steps=4, per_step=4, silent={150: 8_000_000}).summaries())
    whole = read(slide(job_heat(job, "silent_ns"), "title"))
    cells = [shape.get("class") for shape in whole.iter(f"{SVG}rect") if "cell" in (shape.get("class") or "")][:-8]
    # 200 ranks in rows of four: rank 150 is in the 38th
    assert len(cells) == 50 * 4
    assert [at // 4 for at, style in enumerate(cells) if style == "cell h7"] == [37] * 4
    assert [text.text for text in whole.iter(f"{SVG}text") if text.get("class") == "late"] == ["148-151"]


def test_the_command_is_quoted_for_a_shell_and_ends_lines_at_arguments():
    scope = Scope(steps=(2, 5), skip_steps=0, devices=frozenset({1}), steps_by="a b")
    what = [*given(Path("my runs/it's $HOME.json")), *given(Path("-x.json"))]
    assert given(VIM) == ("--sample", "vim_tiny")
    words = open_command(what, tab="kernels", filter="-gemm `x`", scope=scope, rank=3, source="nsys", run="B")
    assert shlex.split(spelled(words)) == list(words)
    assert words[2:4] == ("my runs/it's $HOME.json", "./-x.json")
    assert "--filter=-gemm `x`" in words
    parsed = build_parser(words[1]).parse_args(list(words[1:]))
    assert (parsed.tab, parsed.filter, parsed.rank, parsed.run) == ("kernels", "-gemm `x`", 3, "B")
    broken = lines(words, 40)
    assert len(broken) > 2
    assert shlex.split("\n".join(broken).replace("\\\n", "")) == list(words)
    assert all(tab in NAMES for tab in TABS.values())
    assert set(PICTURES) <= set(TABS)


@pytest.mark.parametrize("format", ["text", "markdown", "html"])
def test_a_report_ends_with_the_command_that_opens_it(format, capsys):
    assert main(["report", str(FP32), "--section", "operators", "--steps", "2", "--format", format]) == 0
    out = capsys.readouterr().out
    command = f"tracetui open {shlex.quote(str(FP32))} --tab operators --steps 2"
    assert command in re.sub(r" \\\n +", " ", out)[-20000 if format == "html" else -200 - len(command) :]


async def test_p_saves_what_a_view_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with opened(FP32, size=(100, 30)) as (app, pilot):
        await press(pilot, "P", "enter")
        assert app.tab == "overview"
        assert "Step" in said(read(next(tmp_path.glob("*-overview.svg")).read_text()))[0]
        await press(pilot, "2", "P")
        assert "save as" in screen_text(app)
        await press(pilot, "enter")
        texts = said(read(next(tmp_path.glob("*-kernels.svg")).read_text()))
        assert texts[0] == "Kernels"
        assert texts[-1].endswith("--tab kernels")
        await press(pilot, "T", "P", "enter")
        assert said(read(next(tmp_path.glob("*-timeline.svg")).read_text()))[0].startswith("Timeline, ")


def test_a_diff_as_a_picture(capsys, tmp_path):
    assert main(["diff", str(FP32), str(FP16), "--format", "svg", "--section", "modules"]) == 0
    slide = read(capsys.readouterr().out)
    texts = said(slide)
    assert texts[0].startswith("Modules: ")
    assert texts[1].startswith("B's step is ")
    assert at_the_foot(texts) == f"tracetui open {shlex.quote(str(FP32))} {shlex.quote(str(FP16))} --tab diff"
    bars = [bar for bar in slide.iter(f"{SVG}rect") if bar.get("class") in ("gpu", "late")]
    signs = [text for text in texts if re.match(r"[+-][\d.]+ .s$", text)]
    assert len(bars) == len(signs) > 3
    assert [bar.get("class") for bar in bars] == ["late" if sign[0] == "+" else "gpu" for sign in signs]
    assert main(["diff", str(FP32), str(FP32), "--format", "svg"]) == 2
    assert "nothing differs in --section kernels" in capsys.readouterr().err
    assert main(["diff", str(FP32), str(FP16), "--format", "svg", "--section", "findings"]) == 2
    assert "there are kinds, kernels" in capsys.readouterr().err


async def test_a_picture_of_a_diff_leads_back_to_both_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with opened(FP32, FP16, size=(100, 30)) as (app, pilot):
        await press(pilot, "9", "P", "enter")
        texts = said(read(next(tmp_path.glob("*-diff*.svg")).read_text()))
        assert texts[1].startswith(f"{app.session.runs['a'].name} → {app.session.runs['b'].name} · ")
        assert at_the_foot(texts) == f"tracetui open {shlex.quote(str(FP32))} {shlex.quote(str(FP16))} --tab diff"


def test_a_long_command_at_the_foot_is_whole():
    """The words are in lines above one another, inside the slide and below the chart."""
    words = "tracetui open " + " ".join(f"/recordings/{'long' * number}.json" for number in range(1, 25))
    one = slide(bars_svg([Bar("a", 1.0, ("1",))], ["B"], "bars"), "Title", "said", "tracetui open a")
    many = slide(bars_svg([Bar("a", 1.0, ("1",))], ["B"], "bars"), "Title", "said", words)
    assert at_the_foot(said(read(many))) == words
    lines = [float(text.get("y", 0)) for text in read(many).iter(f"{SVG}text") if text.get("class") == "slide soft"][1:]
    assert lines == sorted(lines)
    assert lines[-1] == float(next(reversed([*read(one).iter(f"{SVG}text")])).get("y", 0)) < TALL
    assert len(set(lines)) == len(lines) > 5


async def test_a_saved_table_says_its_runs_its_base_and_its_filter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with opened(FP32, FP16) as (app, pilot):
        for tab, name in (("9", "diff.parquet"), ("2", "kernels.csv"), ("2", "kernels.md")):
            await press(pilot, tab)
            if name == "kernels.csv":
                await press(pilot, "slash", *"scan", "enter")
            rows = app.view.table.height_of_view
            await press(pilot, "e")
            await write(pilot, name)
            await press(pilot, "enter")
    of_two = pl.read_parquet("diff.parquet").select("a_run", "b_run", "base", "filter").unique()
    assert of_two.rows() == [(
        "vim_tiny_fp32_bs4", "vim_tiny_fp16_bs4", "A steps 1-3, B steps 1-3 · per step", None,
    )]  # fmt: skip
    of_one = pl.read_csv("kernels.csv")
    assert of_one.height == rows
    assert of_one.columns[-3:] == ["run", "base", "filter"]
    assert of_one.select("run", "filter").unique().rows() == [("vim_tiny_fp32_bs4", "scan")]
    assert of_one["base"][0].startswith("steps 1-3 · ")
    assert Path("kernels.md").read_text().startswith("Run: `vim_tiny_fp32_bs4` · Base: `steps 1-3 · ")
    assert " · Filter: `scan`\n\n| " in Path("kernels.md").read_text()


def test_what_a_saved_table_says_replaces_no_column_of_it(tmp_path):
    frame = pl.DataFrame({"base": ["mine"]})
    export.write(frame, [Field("base", "Base")], tmp_path / "t.json", {"base": "steps 1-3", "filter": ""})
    assert pl.read_json(tmp_path / "t.json").to_dicts() == [
        {"base": "mine", "tracetui_base": "steps 1-3", "filter": None}
    ]


async def test_inside_tmux_a_copy_also_reaches_its_buffer(tmp_path, monkeypatch) -> None:
    program = tmp_path / "tmux"
    program.write_text(f'#!/bin/sh\nread -r first\necho "$* $first" > {tmp_path}/given\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("TMUX", "/tmp/socket,1,0")
    async with opened(FP32) as (app, pilot):
        app.shell.show_tab("kernels")
        await press(pilot, "y")
        assert (tmp_path / "given").read_text().startswith("load-buffer -w - Kernel\t")
        assert "to tmux's buffer" in screen_text(app)
        program.write_text("#!/bin/sh\nexit 1\n")
        await press(pilot, "y")
        assert "if the terminal allows it: OSC 52" in screen_text(app)
