"""Reports as one HTML page: the cells of Markdown, nothing from elsewhere, names that stay text."""

import base64
import hashlib
import itertools
import re
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from laid_out import diff_parts, run_parts
from msgspec import Struct, convert
from msgspec.structs import asdict
from page_reader import Element, read_page
from reported import PAIRS, VIM, compared, reported, swept
from sample_runs import recorded
from sweep_maker import write_sweep

from tracetui.analysis.base.distribution import Distribution
from tracetui.analysis.report.model import Judged
from tracetui.app.charts.area import curve_svg
from tracetui.app.charts.drawing import LETTER
from tracetui.app.charts.gantt import GanttLane, lanes_svg
from tracetui.app.charts.histogram import histogram_svg
from tracetui.app.charts.icicle import IcicleTree, boxes_svg
from tracetui.app.charts.lines import Line, lines_svg
from tracetui.app.charts.roofline import Ceiling, Point, roofline_svg
from tracetui.app.charts.steps import GROUPS, LABELS, TIMES, Step, steps_svg
from tracetui.app.cli.main import main
from tracetui.app.reports.content.sweep import sweep_parts
from tracetui.app.reports.html.page import amount_of, column_values, html
from tracetui.app.reports.layout import Layout, Shown
from tracetui.app.reports.markdown import markdown
from tracetui.app.reports.parts import Block, Chart, Facts, FindingList, Part, Sentences, Title

NCU, MEMORY = "ncu/vim_full_raw.csv.gz", "memory/gpt_memory_snapshot.pickle.gz"
REPORTS = (VIM, NCU, MEMORY, "diff", "sweep")
ROWS = 50


def make_sweep(folder: Path) -> None:
    sizes = [({"batch": size, "keep": keep}, [900.0 * size * keep + 100], 1e9) for size in (1, 4) for keep in (1, 0.5)]
    write_sweep(folder, [(*one, 5) for one in sizes])


@cache
def parts_of(name: str, *, ascii: bool = False) -> tuple[tuple[Part, ...], Layout]:
    layout = Layout(ROWS, ascii)
    if name == "diff":
        return tuple(diff_parts(compared(*map(recorded, PAIRS[0])), layout)), layout
    if name == "sweep":
        with TemporaryDirectory() as folder:
            make_sweep(Path(folder))
            return tuple(sweep_parts(swept(Path(folder)), layout)), layout
    return tuple(run_parts(reported(recorded(name)), layout)), layout


@cache
def page_of(name: str) -> str:
    return html(*parts_of(name))


@cache
def read(name: str) -> Element:
    return read_page(page_of(name))


def markdown_tables(text: str) -> list[list[list[str]]]:
    """The cells of every table, as a reader of Markdown shows them."""
    tables: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith("| "):
            inside = False
            continue
        cells = [shown(cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not inside:
            tables.append([])
        elif set(line) <= set("|:- "):
            continue
        tables[-1].append(cells)
        inside = True
    return tables


def shown(cell: str) -> str:
    """A cell without the marks of Markdown: code spans, backslashes."""
    dots = re.match(r"(?:· )*", cell)
    assert dots is not None
    rest = cell[dots.end() :]
    if code := re.fullmatch(r"(`+)(.*?)\1", rest):
        inside = code[2][1:-1] if len(code[1]) > 1 else code[2]
        return dots[0] + inside.replace("\\|", "|")
    return dots[0] + re.sub(r"\\(.)", r"\1", rest)


@pytest.mark.parametrize("name", REPORTS)
def test_every_cell_reads_as_in_markdown(name: str) -> None:
    expected = markdown_tables(markdown(*parts_of(name)))
    found = [
        [[cell.text for cell in row.all("th", "td")] for row in table.all("tr")] for table in read(name).all("table")
    ]
    assert found == expected
    assert sum(len(row) for table in found for row in table) > 10


@pytest.mark.parametrize("name", REPORTS)
def test_a_page_needs_nothing_else(name: str) -> None:
    text, page = page_of(name), read(name)
    assert len(text.encode()) < 1_000_000
    for one in page.all():
        for key, value in one.attributes.items():
            assert not key.startswith("on")
            assert key not in ("src", "srcset", "style", "action", "xlink:href")
            assert key != "href" or value.startswith("#")
            assert key == "content" or "//" not in value or key in ("title", "aria-label"), (one.tag, key, value)
    styles, scripts = page.all("style"), page.all("script")
    assert len(styles) == len(scripts) == 1
    assert not re.search(r"url\(|@import|@font-face|https?:", styles[0].text + scripts[0].text)
    policy = next(one.attributes for one in page.all("meta") if "http-equiv" in one.attributes)["content"]
    assert policy.startswith("default-src 'none'; ")
    for kind, one in (("style", styles[0]), ("script", scripts[0])):
        digest = base64.b64encode(hashlib.sha256(one.text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}';" in policy


@pytest.mark.parametrize("name", REPORTS)
def test_a_page_is_sound(name: str) -> None:
    page = read(name)
    ids = [one.attributes["id"] for one in page.all() if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    for one in page.all():
        for key in ("href", "aria-labelledby"):
            if target := one.attributes.get(key):
                assert target.removeprefix("#") in ids
    levels = [int(one.tag[1]) for one in page.all("main")[0].all("h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), levels
    linked = {one.attributes["href"][1:] for one in page.all("nav")[0].all("a")}
    assert linked == {one for one in ids if one != "main"}
    for table in page.all("table"):
        assert all(head.attributes["scope"] == "col" for head in table.all("th"))
        assert len({len(row.all("th", "td")) for row in table.all("tr")}) == 1
    for box in page.all("div"):
        assert box.attributes["role"] == "region"
        assert box.attributes["tabindex"] == "0"
    pictures = [one for one in page.all("svg") if one.attributes["class"] == "chart"]
    assert all(one.attributes["role"] == "img" and one.attributes["aria-label"] for one in pictures)


def test_every_chart_of_the_text_is_a_picture() -> None:
    wanted = {VIM: 5, MEMORY: 1, "sweep": 1}
    for name, least in wanted.items():
        charts = [one.chart for one in parts_of(name)[0] if isinstance(one, Block) and one.chart and one.chart.rows]
        assert len(charts) >= least
        assert all(chart.drawn for chart in charts)
        pictures = [one for one in read(name).all("svg") if one.attributes["class"] == "chart"]
        assert len(pictures) == len(charts)
        assert not read(name).all("pre")
        layout = Layout(ROWS, charts=False)
        assert not read_page(html(parts_of(name)[0], layout)).all("figure")


def test_a_finding_is_told_by_sign_and_word() -> None:
    found = next(one.judged for one in parts_of(VIM)[0] if isinstance(one, FindingList)).findings
    articles = read(VIM).all("article")
    assert len(articles) == len(found) > 3
    for row, article in zip(found, articles, strict=True):
        head = next(one.text for one in article.all("h3", "h4"))
        assert row.severity in head.split(":")[0]
        assert row.id in head
        assert row.title in head
        assert article.attributes["class"] == f"finding {row.severity}"
        assert row.formula in article.text


def test_a_finding_shows_its_gain_before_it_is_opened() -> None:
    summaries = [fold.all("summary")[0].text for fold in read(VIM).all("section") if fold.all("summary")]
    gains = [text[text.index("Gains") :] for text in summaries if "Gains" in text]
    assert len(gains) > 1
    assert all(text.endswith(")") or "after those above" in text for text in gains)


def test_of_a_diff_only_the_titles_of_findings_show_at_first() -> None:
    found = next(one.judged for one in parts_of("diff")[0] if isinstance(one, FindingList)).findings
    articles = read("diff").all("article")
    assert len(articles) == len(found) > 0
    for row, article in zip(found, articles, strict=True):
        fold = article.all("details")[0]
        assert "open" not in fold.attributes
        assert row.title in fold.all("summary")[0].text
        assert row.formula in fold.text
        assert row.formula not in fold.all("summary")[0].text


@pytest.mark.parametrize("name", [VIM, NCU])
def test_numbers_sort_by_what_they_were_written_from(name: str) -> None:
    blocks = [one for one in parts_of(name)[0] if isinstance(one, Block) and one.cells]
    exact, whole = 0, 0
    for block, table in zip(blocks, read(name).all("table"), strict=True):
        drawn = [n for n, column in enumerate(block.columns) if not column.is_bar]
        assert [head.attributes.get("title", "") for head in table.all("th")] == [block.columns[n].about for n in drawn]
        for row, values in zip(table.all("tr")[1:], block.values, strict=False):
            for cell, n in zip(row.all("td"), drawn, strict=True):
                value = values[n] if n < len(values) else None
                if "data-v" in cell.attributes and isinstance(value, int | float):
                    assert float(cell.attributes["data-v"]) == pytest.approx(value, rel=1e-11)
                    exact += 1
                if "title" in cell.attributes:
                    assert cell.attributes["title"] == value != cell.text
                    whole += 1
    assert exact > 100
    assert whole > 5


def test_a_tree_keeps_its_order() -> None:
    trees = [one for one in parts_of(VIM)[0] if isinstance(one, Block) and any(one.depths)]
    plain = [one for one in read(VIM).all("table") if "data-sorts" not in one.attributes]
    assert trees
    assert sum("· " in one.text for one in plain) == len(trees)


def test_what_a_written_number_is_worth() -> None:
    assert amount_of("2.296 ms") == ("time", 2_296_000)
    assert amount_of("-135.0 µs") == ("time", -135_000)
    assert amount_of("+1.500 GiB") == ("size", 1.5 * 2**30)
    assert amount_of("66.2 TFLOP/s") == ("FLOP/s", pytest.approx(66.2e12))
    assert amount_of("131,998") == ("number", 131_998)
    assert amount_of("0.89 ±0.18") == ("number", 0.89)
    assert amount_of("<0.01") == ("number", 0.005)
    assert amount_of(">-0.01") == ("number", -0.005)
    assert amount_of("0") == ("", 0)
    assert amount_of("+0.04 pt") == ("pt", 0.04)
    for text in ("48→96", "-", "", "A", "1.2.3", "12 of 14", "batch 4"):
        assert amount_of(text) is None, text


def test_a_column_of_one_unit_sorts_and_unknown_has_no_number() -> None:
    assert column_values(["1.5 ms", "-", "20.00 µs", "0"], ()) == [1_500_000, None, 20_000, 0]
    assert column_values(["1.5 ms", "3"], ()) is None
    assert column_values(["1.5 ms", "48→96"], ()) is None
    assert column_values(["-", ""], ()) is None
    assert column_values(["10.00", "-"], [9.9951, None]) == [9.9951, None]
    assert column_values(["yes", "no"], [True, False]) is None


HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' autofocus onfocus='alert(1)",
    "</style></title></script><h1>",
    "\x1b[31mred\x00\x08 \u202egnp.exe \udc80",
    "&lt;b&gt; &amp; &#60;",
    "<!-- -->]]>",
    "javascript:alert(1)",
)  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_text(name: str) -> None:
    row = {
        "severity": "critical", "id": name, "doubted_by": [name], "title": name, "remarks": [name, name],
        "shared_with": [name], "impact_least_us": None, "impact_after_us": None, "where": [],
        "impact_us": 1.0, "ceiling_percent": 2.0, "formula": name, "threshold": name, "advice": name,
        "next_command": name, "reference": name, "changes": [name], "proofs": [], "key": name,
        "evidence": [{"label": name, "value": name, "unit": name, "tab": name, "filter": name, "row": name}],
    }  # fmt: skip
    found = {
        "findings": [row],
        "findings_checked": [name],
        "findings_suppressed": [{**row, "by": name}],
        "findings_silenced": [{**row, "reason": name}],
        "findings_abstained": [{"id": name, "missing": name}],
    }
    column = Shown(name, right=False, is_name=True, about=name)
    steps = [Step(name, 5.0, [1.0] * len(GROUPS))] * 2
    chart = Chart(name, (name,), lambda: steps_svg(steps, name))
    pictured = Chart(name, (name,))
    parts = [
        Title(name), Facts(((name, name),)), Sentences((name,), lead=True), FindingList(convert(found, Judged)),
        Title(name, level=2),
        Sentences((name, name), heading=name, bullets=True, marks=(name, "")),
        Block(name, name, (column,), [[name]], 5, (2,), name, before=(name,), after=(name,), chart=chart,
              values=[["long " + name]]),
        Block("", chart=pictured),
    ]  # fmt: skip
    text = html(parts, Layout())
    page = read_page(text)
    plain = read_page(html([_plain(part) for part in parts], Layout()))
    assert [one.tag for one in page.all()] == [one.tag for one in plain.all()]
    for one, other in zip(page.all(), plain.all(), strict=True):
        assert one.attributes.keys() == other.attributes.keys()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e\ud800-\udfff]", text.replace("\n", ""))
    if name.isprintable():
        assert page.all("h1")[0].text == page.all("td")[0].text.removeprefix("· · ") == name
        assert page.all("td")[0].attributes["title"] == "long " + name
    assert html(parts, Layout(ascii=True)).isascii()


def _plain(part: Part) -> Part:
    """The same part with harmless names."""
    from dataclasses import fields, replace

    def plain(value: object) -> object:
        if isinstance(value, str):
            return value if value in ("critical", "") else "long name" if value.startswith("long ") else "name"
        if isinstance(value, tuple):
            return tuple(map(plain, value))
        if isinstance(value, list):
            return list(map(plain, value))
        if isinstance(value, Struct):
            return type(value)(**{key: plain(one) for key, one in asdict(value).items()})
        if isinstance(value, Shown | Chart):
            return replace(value, **{one.name: plain(getattr(value, one.name)) for one in fields(value)})
        return value

    return replace(part, **{one.name: plain(getattr(part, one.name)) for one in fields(part)})


def test_pictures_are_xml_with_any_label() -> None:
    name = '<b>"&\x00'
    lanes = [GanttLane(name, [0.0, 0.5, 1.0])]
    tree = IcicleTree.of([name, "x" + name], [0, 1], [3.0, 2.0])
    line = Line(name, ((1.0, 2.0), (4.0, 8.0)), ((4.0, 7.0, 9.0),))
    for svg in (
        lanes_svg(lanes, 1000, name),
        boxes_svg(tree, 3, name),
        lines_svg([line, line], name, x_title=name, y_title=name, x_label=str, y_label=str),
        roofline_svg([Point(name, 2.0, 1e12)], [Ceiling(name, 6e13)], 4e12, name),
        curve_svg([1.0, None, 3.0], [], name, label=str, times=(name, name), names=(name, name)),
    ):
        assert ElementTree.fromstring(svg).tag == "svg"
        assert "\x00" not in svg
        assert "nan" not in svg.lower()


def test_a_steps_bar_is_as_long_as_its_time() -> None:
    steps = [Step("1", 100.0, [25.0, 0, 0, 25.0, 50.0]), Step("2", 50.0, [50.0, 0, 0, 0, 0])]
    root = ElementTree.fromstring(steps_svg(steps, "steps"))
    bars = [one for one in root.iter("rect") if one[:]]
    whole = 760 - LABELS - TIMES
    assert [float(one.attrib["width"]) for one in bars] == [whole / 4, whole / 4, whole / 2, whole / 2]
    assert [one.attrib["class"] for one in bars] == ["gpu", "runtime", "cpu", "gpu"]


def test_labels_of_a_histogram_stand_beside_each_other() -> None:
    found = Distribution(False, tuple(range(10_000, 10_110, 10)), (1,) * 10, 10_095.0, 10_098, 10_099)
    root = ElementTree.fromstring(histogram_svg(found, "launches"))
    labels = [one for one in root.iter("text") if (one.text or "").startswith(("median", "p95", "max"))]
    ends = [(float(one.attrib["x"]), float(one.attrib["x"]) + LETTER * len(one.text or "")) for one in labels]
    assert len(ends) == 3
    assert all(end < begin for (_, end), (begin, _) in itertools.pairwise(ends))
    assert ends[-1][1] <= 760.1


def test_a_curve_reaches_its_level_and_gaps_stay_open() -> None:
    root = ElementTree.fromstring(
        curve_svg([1.0, 2.0, None, 4.0], [], "levels", label=str, times=("", ""), names=("area", ""))
    )
    areas = [one.attrib["d"] for one in root.iter("path")]
    assert len(areas) == 2
    heights = [min(float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", area)) for area in areas]
    assert heights == [26 + 90, 26]


def test_the_command_writes_a_page(tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]
    make_sweep(tmp_path / "sizes")
    sweep, out = str(tmp_path / "sizes"), tmp_path / "sweep.html"
    assert main(["sweep", sweep, "--format", "html", "--output", str(out)]) == 0
    assert read_page(out.read_text("utf-8")).all("h1")[0].text == "tracetui sweep: sizes"
    assert main(["sweep", sweep, "--format", "html", "--ascii"]) == 0
    assert capsys.readouterr().out.isascii()
    assert main(["report", sweep, "--nsys-report", "cuda_gpu_kern_sum", "--format", "html"]) == 2
