"""Units, digits, and names that a terminal must not obey."""

import csv
import io
import re
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from tracetui.analysis.base.number_format import (
    format_bytes,
    format_count,
    format_ns,
    format_number,
    format_percent,
    format_us,
)
from tracetui.analysis.tables.table import Field
from tracetui.app.reports.csv_report import plain_csv
from tracetui.app.reports.markdown import markdown
from tracetui.app.reports.parts import Sentences, Title
from tracetui.app.tables import export
from tracetui.app.text.escaping import cell, code, fenced, plain
from tracetui.app.text.fitting import (
    bar,
    cell_width,
    fit,
    fit_all,
    fit_apart,
    fit_middle,
    fit_parts,
    pad,
    printable,
    short_function,
    to_ascii,
    wrapped,
)
from tracetui.parsers.chrome.records import nanoseconds as careful
from tracetui.parsers.chrome.values import integers, nanoseconds, reals


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.4, "0 ns"),
        (812, "812 ns"),
        (999, "999 ns"),
        (1_000, "1.000 µs"),
        (16_100, "16.10 µs"),
        (999_949, "999.9 µs"),
        (999_950, "1.000 ms"),
        (106_418_000, "106.4 ms"),
        (1_234_567_890, "1.235 s"),
        (5_000_000_000_000, "5,000 s"),
        (-16_100, "-16.10 µs"),
    ],
)
def test_times_take_the_unit_that_suits_them(ns: float | None, text: str) -> None:
    assert format_ns(ns) == text


def test_ascii_times_spell_micro_with_a_letter() -> None:
    assert format_ns(16_100, ascii=True) == "16.10 us"
    assert format_us(16.1, ascii=True) == "16.10 us"


def test_no_time_rounds_up_into_a_unit_it_does_not_reach() -> None:
    for ns in (999.4, 999_900, 999_900_000):
        assert not format_ns(ns).startswith("1000")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.500 KiB"),
        (150_109_880_320, "139.8 GiB"),
        (2**40, "1.000 TiB"),
    ],
)
def test_sizes_are_binary(size: int | None, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(None, "-"), (0.0, "0 %"), (0.001, "<0.01 %"), (2.93, "2.93 %"), (99.96, "100.0 %"), (41.25, "41.2 %")],
)
def test_a_share_is_never_rounded_to_nothing(share: float | None, text: str) -> None:
    assert format_percent(share) == text


def test_signed_shares() -> None:
    assert format_percent(6.4, signed=True) == "+6.40 %"
    assert format_percent(-12.0, signed=True) == "-12.0 %"


def test_counts_and_numbers() -> None:
    assert format_count(131_998) == "131,998"
    assert format_count(None) == format_number(None) == "-"
    assert format_number(11.64) == "11.64"


@pytest.mark.parametrize(
    "name",
    [
        "\x1b[31mred\x1b[0m",
        "\x1b]52;c;aGk=\x07",
        "\x9b2J",
        "line\nbreak\ttab\r",
        "\u202egnp.exe",
        "\u2066isolated\u2069",
        "zero\u200bwidth",
        "lone \udc80 surrogate",
        "\x7f\x00",
        "\u2028separator",
    ],
)
def test_nothing_a_terminal_would_obey_gets_through(name: str) -> None:
    shown = printable(name)
    assert shown.isprintable()
    assert shown != name
    assert printable(name, ascii=True).isascii()


def test_escapes_are_visible_and_other_text_is_left_alone() -> None:
    assert printable("a\x1b[0m") == r"a\x1b[0m"
    assert printable("\u202e") == r"\u202e"
    assert printable("Mamba ×48 µ 日本") == "Mamba ×48 µ 日本"
    assert printable("path\\name") == "path\\name"


def test_ascii_twins() -> None:
    assert to_ascii("Mamba ×48, 3 µs …") == "Mamba x48, 3 us ..."
    assert to_ascii("日").isascii()


def test_bars_fill_eighths_and_show_the_smallest_share() -> None:
    assert bar(1.0, 4) == "████"
    assert bar(0.0, 4) == "    "
    assert bar(1e-6, 4) == "▏   "
    assert bar(0.5, 4, ascii=True) == "##  "
    assert bar(1e-6, 4, ascii=True) == "#   "
    assert all(len(bar(n / 100, 10)) == 10 for n in range(-10, 120))


def test_fitting_never_exceeds_the_width_and_marks_the_cut() -> None:
    assert fit("abcdef", 6) == "abcdef"
    assert fit("abcdef", 4) == "abc…"
    assert fit("abcdef", 4, ascii=True) == "a..."
    assert fit("file.py(1): forward", 10, keep_end=True) == "…: forward"
    assert fit("(no stack recorded)", 10, keep_end=True) == "(no stack…"  # words, no path
    for width in range(1, 14):
        assert cell_width(fit("日本語 kernel 名前", width, keep_end=True)) <= width
        assert cell_width(fit("日本語 kernel 名前", width)) <= width


def test_padding_counts_columns_not_characters() -> None:
    assert cell_width(pad("日本", 8)) == 8
    assert pad("7", 3, right=True) == "  7"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("mamba_ssm/modules/mamba_simple.py(119): forward", "mamba_simple.py(119): forward"),
        ("threading.py(355): wait", "threading.py(355): wait"),
        ("<built-in method reshape of Tensor object at 0x1e59b80>", "reshape of Tensor"),
        ("<built-in method acquire of _thread.lock object at 0x7f>", "acquire of _thread.lock"),
        ("<built-in function linear>", "linear (built-in)"),
        ("aten::mm", "aten::mm"),
        ("nn.Module: Mamba_3", "nn.Module: Mamba_3"),
    ],
)
def test_python_functions_are_named_as_a_person_would(name: str, short: str) -> None:
    assert short_function(name) == short


def test_texts_that_would_look_alike_are_cut_in_the_middle() -> None:
    names = ["gemm_f32_tn_64x64_ffma", "gemm_f32_tn_64x64_ffma_split", "copy", "elementwise: add of a tensor"]
    cut = fit_apart(names, 12)
    assert cut["copy"] == "copy"
    assert len(set(cut.values())) == 4
    assert all(cell_width(text) <= 12 for text in cut.values())


def test_both_ends_stay_in_any_width() -> None:
    for width in range(1, 30):
        for text in ("selective_scan_fwd_kernel<fp16>", "日本語 kernel 名前 日本語 kernel 名前"):
            assert cell_width(fit_middle(text, width)) <= width, width
            assert cell_width(fit_middle(text, width, ascii=True, end=0.35)) <= width, width


def test_short_texts_leave_their_room_to_long_ones() -> None:
    assert fit_all(["Kernels", "selective_scan_fwd_kernel: modules"], 60) == [
        "Kernels",
        "selective_scan_fwd_kernel: modules",
    ]
    assert fit_all(["Kernels", "selective_scan_fwd_kernel: modules"], 30)[0] == "Kernels"
    assert sum(map(len, fit_all(["a" * 40, "b" * 40], 40))) <= 40


def test_a_number_stays_with_its_unit() -> None:
    text = "The GPU is idle for 97.0 % of it, 12.5 ms; 3 steps (1.5 GB/s)."
    for width in range(12, 70):
        lines = wrapped(text, width)
        assert " ".join(lines) == text
        assert all(len(line) <= width for line in lines)
        assert not any(re.match(r"(%|ms|GB)", line) for line in lines)
    assert wrapped("a" * 30, 10) == ["a" * 10] * 3
    assert wrapped("", 10) == []


@pytest.mark.parametrize(("arrow", "ascii"), [(" → ", False), (" -> ", True)])
def test_both_sides_of_a_pair_are_shown(arrow: str, ascii: bool) -> None:
    first = ["sm80_xmma_gemm_f32_tn_n_64x64x8_ffma", "sm80_xmma_gemm_f32_tt_n_64x64x8_ffma", "copy"]
    pairs = [
        f"{name}{arrow}cutlass_80_wmma_tensorop_f16_{way}" for name, way in zip(first, ("tn", "tt", "nn"), strict=True)
    ]
    cut = fit_apart([*pairs, "short"], 29, ascii=ascii)
    assert cut.pop("short") == "short"
    assert len(set(cut.values())) == 3
    assert max(map(len, cut.values())) <= 29
    for pair, shown in cut.items():
        for whole, side in zip(pair.split(arrow), shown.split(arrow), strict=True):
            assert whole.startswith(side.split("..." if ascii else "…")[0])
            assert len(side) > 3
    assert cut[pairs[2]].startswith(f"copy{arrow}cutlass_80_w")


@pytest.mark.parametrize("width", [14, 16, 20, 31])
def test_names_that_elide_alike_show_where_they_differ(width: int) -> None:
    names = [
        f"void at::native::vectorized_elementwise_kernel<4, at::native::{what}Functor<{kind}>, array<char*, {n}ul>>"
        for what in ("Add", "Mul", "Sub")
        for kind in ("float", "double", "c10::Half")
        for n in (2, 3)
    ]
    cut = fit_apart(names, width)
    assert len(set(cut.values())) == len(names)
    assert max(map(len, cut.values())) <= width
    two = fit_apart([name for name in names if "<float>" in name and "2ul" in name], width)
    assert [short.partition(":")[2][:2] for short in two.values()] == ["Ad", "Mu", "Su"]


@pytest.mark.parametrize("width", [19, 22, 24, 30])
def test_names_that_differ_in_several_places_are_told_apart(width):
    names = [
        f"topk_deit_sweep/batch={batch},keep={keep}/repeat-{repeat}"
        for repeat in (3, 2, 1) for batch in (16, 4, 1) for keep in ("0.1", "1.0")
    ]  # fmt: skip
    cut = fit_apart(names, width)
    assert len(set(cut.values())) == len(names)
    assert max(map(len, cut.values())) <= width


def test_a_note_is_cut_by_whole_parts():
    note = "steps 1-3 · 7.658 ms of kernel time · ncu: 98.2 % of GPU time, 54 launches"
    assert fit_parts(note, 74) == note
    assert fit_parts(note, 73) == "steps 1-3 · 7.658 ms of kernel time · ncu: 98.2 % of GPU time …"
    assert fit_parts(note, 62) == "steps 1-3 · 7.658 ms of kernel time …"
    assert fit_parts(note, 30, ascii=True) == "steps 1-3 ..."
    assert fit_parts(note, 8) == note  # nothing whole fits: the line cuts it


EVIL = (
    "=cmd|'/C calc'!A0", "@SUM(1+1)", "+1+cmd|' /C calc'!A0", "-2+3+cmd|' /C calc'!A0", "\t=1+1", "\r=1+1",
    "\x1b[31mred\x1b[0m", "\x9b31m", "a\nb", "<script>alert(1)</script>", "![x](http://evil.example/x.png)",
    "[x](javascript:alert(1))", "<img src=x onerror=alert(1)>", "`code` | pipe", "https://evil.example", "\u202eabc",
    "``` ", "www.evil.example",
)  # fmt: skip
HARMLESS = ("-12.5", "+3", "-1,234", "-5 ms", "-", "aten::mm", "1e-5", "-1e-05", "", "void k(a*, b)", "-3.2%")
FIELDS = (Field("name", "Name", "name"), Field("total", "Total", "us"))


@pytest.mark.parametrize("text", EVIL)
def test_no_cell_is_a_formula_or_controls_a_terminal(text: str) -> None:
    written = cell(text)
    assert not written.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert written.isprintable()


@pytest.mark.parametrize("text", HARMLESS)
def test_numbers_and_names_stay_as_they_are(text: str) -> None:
    assert cell(text) == text


def test_every_writer_of_csv_and_tsv_does_the_same(tmp_path: Path) -> None:
    frame = pl.DataFrame({"name": pl.Series([*EVIL, None], dtype=pl.Categorical), "total": range(-3, len(EVIL) - 2)})
    want = [cell(text) for text in EVIL]
    for suffix, sign in ((".csv", ","), (".tsv", "\t")):
        export.write(frame, FIELDS, tmp_path / f"t{suffix}")
        text = (tmp_path / f"t{suffix}").read_text(encoding="utf-8")
        rows = list(csv.reader(io.StringIO(text), delimiter=sign))
        assert [row[0] for row in rows[1:]] == [*want, ""]
        assert rows[1][1] == "-3", "a negative number is no formula"
    assert [row[0] for row in csv.reader(io.StringIO(export.tsv(frame, FIELDS)), delimiter="\t")][1:-1] == want
    report = plain_csv([{"name": text, "total": -3} for text in EVIL], ("name", "total"))
    rows = list(csv.reader(io.StringIO(report)))
    assert [row[0] for row in rows[1:]] == want
    assert rows[1][1] == "-3"


@pytest.mark.parametrize("text", EVIL)
def test_markdown_shows_a_name_and_does_nothing(text: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({"name": [text], "total": [5]})
    shown = export.markdown(frame, FIELDS)
    assert shown.count("\n") == 3
    assert code(text) in shown
    assert "\x1b" not in shown
    said = markdown([Title(text, 1), Sentences((text,))], SimpleNamespace(ascii=False))  # type: ignore[arg-type]
    for live in ("<script", "<img", "](", "https://evil", "www.evil", "\x1b"):
        assert live not in said.replace("\\<", "\\").replace("\\](", "\\"), said
    assert plain(text).isprintable()


def test_nothing_ends_a_block_of_code() -> None:
    block = fenced(["a", "```", "````` b"])
    assert (block[0], block[-1]) == ("``````text", "``````")


def at_once(function, texts):
    data = b",".join(text.encode() for text in texts) + b"," + b" " * 64
    buffer = np.frombuffer(data, np.uint8)
    words = np.ndarray((buffer.size - 8,), "<u8", data, 0, (1,))
    begin = np.cumsum([0] + [len(text) + 1 for text in texts[:-1]])
    values, plain = function(buffer, words, begin)
    return values.tolist(), plain.tolist()


def test_integers_of_every_length():
    texts = [sign + "123456789012345678"[:n] for n in range(1, 19) for sign in ("", "-")] + [
        "0",
        "-0",
        "999999999999999999",
    ]
    values, plain = at_once(integers, texts)
    assert all(plain)
    assert values == [int(text) for text in texts]


@pytest.mark.parametrize(
    "text", ["1234567890123456789", "1.0", "1e5", "1E5", "null", "inf", '"7"', "", "N/A", "-", "+1"]
)
def test_integers_that_are_not_plain(text):
    assert at_once(integers, ["1", text, "2"])[1] == [True, False, True]


@pytest.mark.parametrize("digits", range(8))
def test_nanoseconds_with_any_number_of_decimals(digits):
    rng = np.random.default_rng(digits)
    # what a clock shows in 2262 is the most that fits
    whole = [*rng.integers(0, 10**15, 100).tolist(), *rng.integers(10**15, 2**63 // 1000, 100).tolist()]
    texts = [f"{n}.{rng.integers(0, 10**digits):0{digits}d}" if digits else str(n) for n in whole]
    values, plain = at_once(nanoseconds, texts)
    assert all(plain)
    assert values == [int((Decimal(text) * 1000).to_integral_value(ROUND_DOWN)) for text in texts]


@pytest.mark.parametrize("decimals", range(8, 24))
def test_nanoseconds_of_floats_printed_in_full(decimals):
    rng = np.random.default_rng(decimals)
    texts = [f"{n}.{''.join(map(str, rng.integers(0, 10, decimals)))}" for n in rng.integers(0, 10**6, 200).tolist()]
    texts += ["48." + "637999999999998"[:decimals].ljust(decimals, "9"), "0." + "9" * decimals, "-1." + "9" * decimals]
    values, plain = at_once(nanoseconds, texts)
    assert all(plain)
    rounded = [Decimal(text).quantize(Decimal("1e-6"), ROUND_HALF_UP) for text in texts]
    assert values == [int((number * 1000).to_integral_value(ROUND_DOWN)) for number in rounded]
    assert values[-3:] == [48638, 1000, -2000]
    assert [careful(text) for text in texts] == values


def test_nanoseconds_keep_what_float64_loses():
    assert at_once(nanoseconds, ["1712195495519689.047", "-3.001", "7"])[0] == [1712195495519689047, -3001, 7000]


@pytest.mark.parametrize(
    "text",
    [
        "1e-06",
        "2.5e3",
        "12.123456789e2",
        "1.123456789012345678901234",
        "nan",
        "Infinity",
        '"5"',
        "12345678901234567.5",
        "9999999999999999",
        "9223372036854775.808",
        "-9223372036854775.808",
    ],
)
def test_nanoseconds_that_are_not_plain(text):
    assert at_once(nanoseconds, ["1", text, "2"])[1] == [True, False, True]


def test_reals_are_those_of_float():
    texts = ["0.242424", "51.061058344640436", "5.142857142857143", "11.636364", "-0.5", "100", "0", "0.000001"]
    values, plain = at_once(reals, texts)
    assert all(plain)
    for value, text in zip(values, texts, strict=True):
        exact = len(text.replace(".", "").lstrip("-0")) <= 15
        assert value == float(text) if exact else value == pytest.approx(float(text), rel=3e-16)


@pytest.mark.parametrize("text", ["1e5", "inf", "NaN", "0.12345678901234567", "null"])
def test_reals_that_are_not_plain(text):
    assert at_once(reals, ["1.5", text, "2"])[1] == [True, False, True]
