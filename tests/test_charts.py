"""Charts of text: areas and sums are right, the width is kept, and ASCII means ASCII."""

import itertools
import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.analysis.base.distribution import distribution, p95_of
from tracetui.app.charts import icicle as icicles
from tracetui.app.charts.gantt import GanttLane, gantt, resampled
from tracetui.app.charts.histogram import LEAST_HEIGHT, LEAST_WIDTH, bins_for, histogram
from tracetui.app.charts.icicle import IcicleTree
from tracetui.app.charts.lanes import End, arrow_cells
from tracetui.app.charts.lines import Line, line_chart
from tracetui.app.charts.roofline import Ceiling, Point, rate, roofline_chart
from tracetui.app.charts.steps import GROUPS, Step, marked, share_out, step_bars, step_runs
from tracetui.app.reports.content.charts import levels
from tracetui.app.text.fitting import cell_width

SPREADS = {
    "normal": [round(random.Random(n).gauss(16_000, 150)) for n in range(500)],
    "ticks": [32 * random.Random(n).randint(490, 511) + n % 2 for n in range(144)],
    "microseconds": [1000 * random.Random(n).randint(3, 9) for n in range(60)],
    "two humps": [10_000 + n for n in range(100)] + [900_000 + n for n in range(50)],
    "an outlier": [5_000] * 400 + [5_032] * 30 + [2_000_000],
    "two": [7, 8],
    "from nothing": [0, 0, 5, 1000],
    "long": [10**9 * n for n in range(1, 40)],
}


def test_a_histogram_holds_every_launch() -> None:
    for case in itertools.product([False, True], [(78, 9), (LEAST_WIDTH, LEAST_HEIGHT), (198, 14)], SPREADS):
        ascii, (width, height), name = case
        values = SPREADS[name]
        found = distribution(pl.Series(values), bins_for(width, len(values)))
        assert found is not None, case
        assert sum(found.counts) == len(values), case
        for low, high, count in zip(found.edges[:-1], found.edges[1:], found.counts, strict=True):
            assert low < high, case
            assert count == sum(low <= value < high for value in values), case
        assert found.max_ns == max(values), case
        assert found.median_ns == pl.Series(values).median(), case
        lines = histogram(found, width, height, here=values[0], ascii=ascii)
        assert len(lines) == height, case
        assert all(cell_width(line) <= width for line in lines), case
        assert not ascii or "".join(lines).isascii(), case
        plot = [line.partition("|" if ascii else "│")[2] for line in lines[1:-3]]
        drawn = [any(row[at : at + 1].strip() for row in plot) for at in range(width)]
        axis = lines[-3].partition("+" if ascii else "└")[2]
        across = len(axis) // len(found.counts)
        # a bin shows exactly where it holds something, however little
        assert [drawn[at * across] for at in range(len(found.counts))] == [count > 0 for count in found.counts], case
        assert axis.count("^" if ascii else "▲") == 1, case


def test_bars_are_as_high_as_their_counts() -> None:
    found = distribution(pl.Series([10] * 8 + [20] * 4 + [30] * 2 + [40]), 40)
    assert found is not None
    assert [count for count in found.counts if count] == [8, 4, 2, 1]
    lines = histogram(found, 60, 12)
    heights = []
    for row in zip(*(line.partition("│")[2].ljust(60) for line in lines[1:9]), strict=True):
        eighths = sum(" ▁▂▃▄▅▆▇█".index(cell) for cell in row)
        if eighths and (not heights or heights[-1] != eighths):
            heights.append(eighths)
    assert heights == [64, 32, 16, 8]


def test_bins_are_no_narrower_than_the_clock_ticks() -> None:
    """Durations that a clock of 32 ns gave fill the bins between the extremes without gaps."""
    found = distribution(pl.Series([32 * n + n % 3 - 1 for n in range(500, 521) for _ in range(20)]), 100)
    assert found is not None
    assert set(found.counts) == {20}
    assert len(found.counts) == 21


def test_few_launches_have_no_distribution() -> None:
    assert distribution(pl.Series([], dtype=pl.Int64), 10) is None
    assert distribution(pl.Series([5]), 10) is None
    assert distribution(pl.Series([5, 5, None]), 10) is None


def test_the_95th_percentile_is_a_launch() -> None:
    values = pl.Series(range(1, 101)).to_numpy()
    assert p95_of(values) == 95
    assert p95_of(values[:20]) == 19
    assert p95_of(values[:1]) == 1


def test_a_chart_without_room_is_none() -> None:
    found = distribution(pl.Series([1, 2, 3]), 10)
    assert found is not None
    assert histogram(found, LEAST_WIDTH - 1, 20) == []
    assert histogram(found, 80, LEAST_HEIGHT - 1) == []


def forest(seed: int) -> IcicleTree:
    """A random tree whose rows have at least what their children have together."""
    pick = random.Random(seed)
    names, depths, values = [], [], []

    def grow(depth: int, value: int) -> None:
        row = len(values)
        names.append(f"{pick.choice(['Block', 'Ünï', 'a rather long name of a module'])}_{row}")
        depths.append(depth)
        values.append(value)
        left = value
        while depth < 5 and left > 10 and pick.random() < 0.85:
            part = pick.randint(1, left)
            left -= part
            grow(depth + 1, part)

    for _ in range(pick.randint(1, 5)):
        grow(0, pick.randint(1, 10_000))
    return IcicleTree.of(names, depths, values)


def test_boxes_are_as_wide_as_their_share() -> None:
    for seed in range(30):
        tree, width = forest(seed), 40 + 5 * seed
        whole = sum(node.value for node in tree.roots)
        levels = icicles.layout((), tree.roots, tree.children, width, 64)
        assert sum(box.width for box in levels[0]) == width, seed
        for level, boxes in enumerate(levels):
            at = 0
            for box in boxes:
                assert box.start >= at, seed
                at = box.start + box.width
                # an edge is rounded once a level
                assert abs(box.width - box.node.value / whole * width) <= level + 1, seed
                assert box.width >= icicles.LEAST_BOX or box is boxes[-1] or box.hidden or len(boxes) > 1, seed
            assert at <= width, seed
            for ascii in (False, True):
                text = "".join(run.text for run in icicles.box_runs(boxes, whole, width, ascii=ascii))
                assert cell_width(text) == width, seed
        rows = icicles.icicle(tree.roots, tree.children, width, 3)
        assert len(rows) == min(3, len(levels)), seed
        assert all(cell_width(row) <= width for row in rows), seed


@pytest.mark.parametrize("seed", range(10))
def test_no_value_is_lost_in_boxes(seed: int) -> None:
    """But for a last rest of less than half a cell."""
    tree = forest(seed)
    for node in tree.roots:
        inside = tree.children(node)
        if inside:
            zoomed = icicles.layout((node,), tree.roots, tree.children, 30, 2)[1]
            missing = sum(child.value for child in inside) - sum(box.node.value for box in zoomed)
            assert 0 <= missing <= node.value / 30 / 2


def test_instances_count_as_one_until_they_are_shown_apart() -> None:
    tree = IcicleTree.of(["Net_0", "Block_0", "Block_1", "Head_0"], [0, 1, 1, 1], [10.0, 4.0, 3.0, 2.0])
    (net,) = tree.roots
    assert [(node.name, node.value) for node in tree.children(net)] == [("Block ×2", 7.0), ("Head_0", 2.0)]
    tree.apart |= {1, 2}
    assert [node.name for node in tree.children(net)] == ["Block_0", "Block_1", "Head_0"]
    assert icicles.icicle(tree.roots, tree.children, 40, 4) == [
        "▏Net_0 100.0 % ─────────────────────────",
        "▏Block_0 40.0 %─▏Block_1 ───▏Head_0─",
    ]
    assert icicles.icicle(tree.roots, tree.children, 19, 4) == []


def test_small_boxes_share_one_that_says_how_many() -> None:
    names = ["Net_0", *(f"{letter}_0" for letter in "abcdefgh")]
    tree = IcicleTree.of(names, [0] + [1] * 8, [100.0, 70.0, *[4.0] * 7])
    rows = icicles.icicle(tree.roots, tree.children, 60, 4, ascii=True)
    assert rows[1] == "|a_0 70.0 % ------------------------------|... 7 more -----"


@pytest.mark.parametrize("width", [44, 80, 120, 200])
@pytest.mark.parametrize("ascii", [False, True])
def test_lanes_keep_their_width_and_say_their_share(width: int, ascii: bool) -> None:
    lanes = [GanttLane("a thread with a long name", [0.0] * 30 + [1.0] * 90), GanttLane("stream 7", [0.5, 0.001, 0.0])]
    rows = gantt(lanes, width, 12_345_678, ascii=ascii)
    assert len(rows) == 3
    assert {cell_width(row) for row in rows[:2]} == {width}
    assert cell_width(rows[2]) <= width
    assert rows[0].endswith(" 75.0 %")
    assert rows[1].endswith(" 16.7 %")
    side = "|" if ascii else "│"
    cells = rows[0].split(side)[1]
    full, nothing = ("#", "_") if ascii else ("█", "·")
    assert abs(cells.count(full) - 0.75 * len(cells)) <= 1
    assert abs(cells.count(nothing) - 0.25 * len(cells)) <= 1
    # what is nearly nothing is not nothing
    assert nothing not in rows[1].split(side)[1][: 2 * len(cells) // 3]
    assert not ascii or "".join(rows).isascii()
    assert gantt(lanes, 43, 12_345_678) == gantt([], width, 1) == gantt(lanes, width, 0) == []


@pytest.mark.parametrize("ascii", [False, True])
def test_long_events_have_their_name_in_their_bar_where_it_fits(ascii: bool) -> None:
    named = [("convolution_backward", 0.25, 0.75), ("short", 0.8, 0.9), ("no room for this one", 0.95, 1.0)]
    lanes = [GanttLane("calls 1", [0.0] * 30 + [1.0] * 90, named=named)]
    edge, full = ("|", "#") if ascii else ("▏", "█")
    plain = gantt([GanttLane("calls 1", lanes[0].busy)], 120, 1000, ascii=ascii)[0]
    wide, narrow = (gantt(lanes, width, 1000, ascii=ascii)[0] for width in (120, 44))
    assert f"{edge}convolution_backward {full}" in wide
    assert f"{edge}short " in wide
    assert "no room" not in wide
    assert "short" not in narrow
    assert [len(wide), wide[:19], wide[-9:]] == [len(plain), plain[:19], plain[-9:]]


def _arrow(tail: End, head: End, rows: int = 6, columns: int = 10, *, ascii: bool = True) -> list[str]:
    cells = arrow_cells(tail, head, rows, columns, ascii=ascii)
    return ["".join(cells.get((line, column), " ") for column in range(columns)) for line in range(1, rows + 1)]


def test_an_arrow_goes_straight_and_along_the_last_row_before_its_head() -> None:
    up = _arrow(End(6, 2), End(2, 7), ascii=False)
    assert up == ["          ", "       ▲  ", "  ╭────╯  ", "  │       ", "  │       ", "  ●       "]
    down = _arrow(End(1, 7), End(4, 2), ascii=False)
    assert down == ["       ●  ", "       │  ", "  ╭────╯  ", "  ▼       ", "          ", "          "]
    assert _arrow(End(4, 3), End(1, 3)) == ["   ^      ", "   |      ", "   |      ", "   o      ", " " * 10, " " * 10]
    assert _arrow(End(2, 1), End(1, 8))[:2] == ["        ^ ", " o        "]


def test_an_arrow_leaves_the_screen_at_the_edge_that_it_crosses() -> None:
    assert _arrow(End(5, 2), End(-9, 5))[0] == "  ^       "
    assert _arrow(End(2, 2), End(99, 5))[5] == "  v       "
    assert _arrow(End(5, 2), End(2, 300))[2] == "  +------>"
    assert _arrow(End(5, -7), End(2, 4))[2:4] == ["+---+     ", "<         "]
    nothing = [" " * 10] * 6
    for tail, head in (
        (End(3, 1), End(3, 5)),
        (End(5, -1), End(2, -9)),
        (End(-5, 1), End(0, 9)),
        (End(9, 0), End(7, 0)),
    ):
        assert _arrow(tail, head) == nothing


@given(*[st.integers(-20, 30)] * 4, st.integers(1, 12), st.integers(1, 20))
def test_an_arrow_keeps_to_the_rows_in_sight(a: int, b: int, c: int, d: int, rows: int, columns: int) -> None:
    cells = arrow_cells(End(a, b), End(c, d), rows, columns, ascii=True)
    assert all(1 <= line <= rows and 0 <= column < columns for line, column in cells)
    assert set(cells.values()) <= set("^v<>o|-+")


@pytest.mark.parametrize("cells", [1, 7, 30, 31, 64, 200])
def test_shares_in_other_parts_sum_up_to_the_same(cells: int) -> None:
    busy = [random.Random(n).random() for n in range(30)]
    found = resampled(busy, cells)
    assert len(found) == cells
    assert sum(found) / cells == pytest.approx(sum(busy) / 30)
    assert all(0 <= share <= 1 + 1e-9 for share in found)


def test_a_step_s_bar_is_shared_out_to_its_parts() -> None:
    steps = [Step("1", 100.0, [40, 0, 10, 25, 25]), Step("2", 50.0, [50, 0, 0, 0, 0])]
    room = 80 - 8 - 10 - 2
    first, second = step_runs(steps, 80)
    assert [len(run.text) for run in first[2:-1]] == [24, 6, 15, 15]
    assert [len(run.text) for run in second[2:-1]] == [30]
    assert [run.style for run in first[2:-1]] == ["gpu", "loader", "runtime", "cpu"]
    assert sum(len(run.text) for run in first) == sum(len(run.text) for run in second) == 80 - 2
    assert room == 60
    rows = step_bars(steps, 80, ascii=True)
    assert rows[0].split("  ") == [*[""] * 4, "# GPU work", "% data loader", "+ runtime", ". CPU, other"]
    assert "".join(rows).isascii()
    assert step_bars([], 80) == step_bars(steps, 39) == []


def test_cells_of_parts_add_up() -> None:
    for seed in range(20):
        pick = random.Random(seed)
        parts = [pick.random() * pick.choice([0, 1, 100]) for _ in GROUPS]
        cells = share_out(parts, sum(parts) or 1, 61)
        assert sum(cells) == (61 if sum(parts) else 0), seed
        assert all(abs(cell - part / (sum(parts) or 1) * 61) <= 1 for cell, part in zip(cells, parts, strict=True)), (
            seed
        )


def test_a_curve_keeps_its_peaks_and_its_level_between_them() -> None:
    assert levels([0.0, 1.0, 1.5, 9.0], [5, 9, 2, 4], 10) == [5, 9, 2, 2, 2, 2, 2, 2, 2, 4]
    assert levels([None, None, None], [1, 2, 3], 3) == [1, 2, 3]
    assert levels([0.0, 4.0], [None, 7], 4) == [None, None, None, 7]
    assert levels([3.0], [7], 2) == [7, 7]


def test_noisy_repeats_have_a_bar() -> None:
    def drawn(low: float, high: float, *, ascii: bool = False) -> list[str]:
        line = Line("a", ((1.0, 10.0), (2.0, 30.0), (4.0, 100.0)), ((2.0, low, high),))
        return line_chart(
            [line], 60, 16, x_title="batch", y_title="time", x_label=str, y_label=lambda value: f"{value:.0f}",
            ascii=ascii,
        )  # fmt: skip

    calm, noisy = drawn(29.9, 30.1), drawn(15.0, 60.0)
    assert calm[0] == "time, log-log"
    assert not any("┊" in row for row in calm)
    assert noisy[0] == "time, log-log, ┊ ± standard deviation"
    column = next(row.index("o") for row in noisy[2:-4] if "o" in row)
    bars = [number for number, row in enumerate(noisy[1:-2]) if row[column : column + 1] == "┊"]
    place = next(number for number, row in enumerate(noisy[1:-2]) if row[column : column + 1] == "o")
    # on a logarithmic axis half and twice are equally far, but for the rounding to rows
    assert abs((place - min(bars)) - (max(bars) - place)) <= 1
    assert len(bars) > 4
    assert "".join(drawn(1.0, 1000.0, ascii=True)).isascii()
    assert all(len(row) <= 60 for row in drawn(-5.0, 1e9))


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize(("width", "height"), [(79, 11), (120, 20), (198, 30)])
def test_a_roof_has_its_name_even_where_it_is_short(width: int, height: int, ascii: bool) -> None:
    points = [Point("A", 0.1, 1e11), Point("B", 500.0, 8e14), Point("C", 700.0, 9e14)]
    rows = roofline_chart(points, [Ceiling("BF16 tensor", 1.06e15)], 4.81e12, width, height, ascii=ascii)
    assert len(rows) == height
    assert any("BF16 tensor 1.06 PFLOP/s" in row for row in rows)
    assert any("4.81 TB/s" in row for row in rows)
    assert all(cell_width(row) <= width for row in rows)
    assert all(any(point.letter in row for row in rows[1:]) for point in points)


def test_a_rate_is_a_number_and_its_unit() -> None:
    assert rate(66.9e12, "FLOP/s") == "66.9 TFLOP/s"
    assert rate(4.81e12, "B/s") == "4.81 TB/s"
    assert rate(500.0, "B/s") == "500 B/s"


def test_slow_steps_are_marked() -> None:
    steps = [Step(str(n), time, [time, 0, 0, 0, 0]) for n, time in enumerate([31.0, 20.0, 20.0, 19.0])]
    assert [step.slow for step in marked(steps)] == [True, False, False, False]
    assert not any(step.slow for step in marked(steps[:2]))
    rows = step_bars(marked(steps), 80)
    assert rows[0].endswith("! over 1.5 × median")
    assert rows[1].startswith("      0!█")
    assert rows[2].startswith("      1 █")
    assert "!" not in step_bars(steps, 80)[0]
