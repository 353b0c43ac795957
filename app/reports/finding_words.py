"""The texts of a finding and of what `tracetui try` measured, on the screen, in every report and the command line."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tracetui.analysis.base.number_format import (
    format_count,
    format_number,
    format_percent,
    format_signed_us,
    format_us,
)
from tracetui.app.reports.counter_text import value_text
from tracetui.app.text.fitting import cell_width, fit, printable, wrapped
from tracetui.app.text.words import SEVERITY_SIGNS
from tracetui.parsers.names.kernel_names import short_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tracetui.analysis.report.model import AbstainedRow, Evidence, FindingRow, PlaceRow, ProofRow

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
STEP = "step"
MEAN_STEP = "mean_step"
WORK_TIME = "time from first to last GPU work"
"""What stands for the step where there are none."""
LABEL_WIDTH = 7
"""Columns that the longest label takes with the space after it."""


def marked(row: FindingRow) -> str:
    """``! critical``: told by sign and word, never by colour alone."""
    return f"{SEVERITY_SIGNS[row.severity]} {row.severity}"


def headline(row: FindingRow) -> str:
    """``! S2 critical: the GPU waits …``, or ``… S2 info, may not hold (V10): …``."""
    return f"{SEVERITY_SIGNS[row.severity]} {row.id} {row.severity}{doubt(row.doubted_by)}: {row.title}"


def doubt(by: Sequence[str]) -> str:
    """``, may not hold (V10)``: what a finding says before anything else if another speaks against it."""
    return f", may not hold ({', '.join(by)})" if by else ""


def titled(title: str, by: Sequence[str]) -> str:
    """The title where it stands alone: ``may not hold (V10): the GPU waits …``."""
    return f"{doubt(by).removeprefix(', ')}: {title}" if by else title


def whole_of(base: str) -> str:
    """What a finding's cost is of, by the base of the numbers (`Selection.describe`)."""
    if base.startswith("step"):
        return STEP
    return WORK_TIME if base.startswith("first to last") else "recorded time"


def parts(row: FindingRow, whole: str = STEP, *, ascii: bool = False) -> list[tuple[str, str]]:
    """(label, text) of all beside the title; no label where a text goes on with the same. `whole`: see `whole_of`."""
    against, gained = len(row.doubted_by), gain(row, whole, ascii=ascii)
    said = [
        *(("But" if not number else "", remark) for number, remark in enumerate(row.remarks[:against])),
        (gained[:5], gained[6:]),
        ("", in_turn(row, ascii=ascii) if row.impact_after_us is not None else ""),
        *(("Proved" if not number else "", proof_text(proof, ascii=ascii)) for number, proof in enumerate(row.proofs)),
        *(("Where" if not number else "", text) for number, text in enumerate(places(row, ascii=ascii))),
        ("Try", row.advice),
        ("Run", row.next_command),
        ("Why", row.formula),
        ("Limit", row.threshold),
        *(("Mind" if not number else "", remark) for number, remark in enumerate(row.remarks[against:])),
        ("See", row.reference),
    ]
    return [(label, text) for label, text in said if text]


MOST_PLACES = 3
"""So many places of a finding are printed."""
LEAST_PLACE_PERCENT = 5.0
"""A place that has less of a finding's work or time is left out, but for the first one."""


def places(row: FindingRow, *, ascii: bool = False) -> list[str]:
    """``train.py(12): step, 240 × aten::linalg_vector_norm, 9.10 ms``: where in the program the finding is.

    What is called at one place stands behind it.
    """
    scenes: dict[tuple[str | None, ...], list[str]] = {}
    for place in [place for place in row.where if (place.percent or 0) >= LEAST_PLACE_PERCENT] or row.where[:1]:
        alike = scenes.setdefault((place.frame, place.module, place.range), [])
        shown = replace(place, frame=None, module=None, range=None) if alike else place
        alike.append(place_text(shown, ascii=ascii))
    return ["; ".join(alike[:MOST_PLACES]) for alike in list(scenes.values())[:MOST_PLACES]]


_FOLDERS = re.compile(r"\S*/(?=[^/\s]+\(\d+\))")
"""The folders of a file with a line: ``train/nets/`` of ``backward of train/nets/unet.py(12): forward``."""
_COMPILED_GRAPH = re.compile(r"^## Call CompiledFxGraph (\w{6})\w* ##$")


def place_text(place: PlaceRow, width: int | None = None, *, ascii: bool = False) -> str:
    """One place, what is called there, and its time per step; what tells least goes where the width is too small."""
    # a recording names a function by its first line
    at_line = place.line and not re.search(rf"[(:]{place.line}\b", place.frame or "")
    line = f"line {place.line}" if at_line else None
    module = f"in {place.module}" if place.frame and place.module else place.module
    times = "x" if ascii else "×"
    calls = f"{format_count(round(place.calls))} {times} " if round(place.calls) > 1 else ""
    called = f"{calls}{place.operator}" if place.operator else None
    time = f"{format_us(place.us, ascii=ascii)} of the {'GPU' if place.on_gpu else 'host'}"
    # the hash of a compiled graph tells nobody where it is, its first signs tell it from others
    range = _COMPILED_GRAPH.sub(r"compiled graph \1", place.range or "")
    told = [text for text in (place.frame, line, module, range, called, time) if text]
    for least in (module, range, time):
        is_place = told[:1] == [least]
        if width is not None and not is_place and least in told and len(", ".join(told)) > width:
            told.remove(least)
    if width is not None and place.frame and len(", ".join(told)) > width:
        told[0] = _FOLDERS.sub("", told[0])
    return ", ".join(told)


MOST_ADVICE, ADVICE_LINES = 5, 4
"""How many findings a first page has, and how many lines each."""
SURE = {True: "from clean steps", False: "as recorded"}
"""What gains are known from, by whether the base is of steps without a profiler; a page says it once."""


def advice(found: Iterable[FindingRow], most: int = MOST_ADVICE, answer: str = "") -> list[FindingRow]:
    """The findings of a first page, on which nothing is said twice: all but remarks on the measurement.

    What several advise stands at the first of them, what two gain alike at the second, and what the page's `answer`
    says too gives way to what to do.
    """
    rows = [_but_what_is_said(row, answer) for row in found if not is_remark(row)][:most]
    said, ids = [row.advice for row in rows], [row.id for row in rows]
    return [
        replace(
            row,
            advice="" if row.advice in said[:n] else row.advice,
            shared_with=[id for id in row.shared_with if id in ids[:n]],
        )
        for n, row in enumerate(rows)
    ]


def _but_what_is_said(row: FindingRow, answer: str) -> FindingRow:
    """The finding with its advice in place of what is said of its title: all, or what stands behind the colon."""
    head, _, tail = row.title.partition(": ")
    if row.advice and row.title in answer:
        return replace(row, title=row.advice, advice="")
    return replace(row, title=f"{head}. {row.advice}", advice="") if row.advice and tail and tail in answer else row


def is_remark(row: FindingRow) -> bool:
    """See `engine.is_remark`."""
    return row.id.startswith(("V", "T")) and not row.impact_us and row.severity != "invalid"


def brief(
    row: FindingRow, width: int, whole: str = STEP, named: str = "", *, lines: int = ADVICE_LINES, ascii: bool = False
) -> list[str]:
    """A finding in at most so many lines: what to change, where, what it gains, what speaks against it.

    Args:
        row: the finding.
        width: columns.
        whole: what its gain is of, see `whole_of`.
        named: the base that the page names once (`page_base`).
        lines: at most.
        ascii: no characters outside ASCII.
    """
    title = wrapped(printable(row.title, ascii=ascii), width)
    rest = details(row, whole, width, named=named, ascii=ascii)
    most = 1 if lines < ADVICE_LINES else 2 if row.advice or row.where else lines - len(rest)
    if len(title) > most:
        title = [*title[: most - 1], " ".join(title[most - 1 :])]
    if row.doubted_by and row.impact_us:
        # without a step that was timed alone, what spares the host gains where the step waits for it
        if_so = "Only if the CPU is the limit" if row.doubted_by == ["V26"] else "May not hold"
        known = f"{if_so} ({', '.join(row.doubted_by)})"
        if len(title) + len(rest) > lines:
            at = place(row, width - len(known) - 2, ascii=ascii)
            rest = [f"{known}; {uncapitalized(at)}" if at else known, rest[-2]]
        elif cell_width(rest[-1]) > width:
            rest[-1] = known
    elif not row.impact_us and rest:  # what to do takes the lines that are left
        told = wrapped(printable(rest.pop(), ascii=ascii), width)
        room = lines - len(title) - len(rest)
        rest += [*told[: room - 1], " ".join(told[room - 1 :])] if told[room - 1 :] else told
    return [fit(printable(text, ascii=ascii), width, ascii=ascii) for text in (*title, *rest)][:lines]


def details(
    row: FindingRow, whole: str = STEP, width: int | None = None, *, named: str = "", ascii: bool = False
) -> list[str]:
    """Where it is, what it gains, and what speaks against it or gains the same; without a gain what to do."""
    at, gains = place(row, width, ascii=ascii), gain(row, whole, named, ascii=ascii)
    if not gains:
        return [text for text in (at, row.advice) if text]
    last = " ".join(row.remarks[:1]) if row.doubted_by else ""
    if turn := in_turn(row, ascii=ascii):
        at_most = "<=" if ascii else "≤"
        forms = (turn, turn.replace("above at most", f"above {at_most}"), turn.replace("above at most", at_most))
        said = [f"{gains}; {form}" for form in forms]
        fitting = next((text for text in said if width is None or len(text) <= width), "")
        gains, last = fitting or gains, last or ("" if fitting else turn)
    return [text for text in (at, gains, f"{last[:1].upper()}{last[1:]}") if text]


def page_base(rows: Iterable[FindingRow], whole: str = STEP, *, ascii: bool = False) -> str:
    """``a 40.94 ms step``: what the gains on a page are of, which it names once; empty where none is promised."""
    bases = Counter(filter(None, (base(row, whole, ascii=ascii) for row in rows)))
    return bases.most_common(1)[0][0] if bases else ""


def known_from(named: str, *, clean: bool) -> str:
    """``; gains of a 40.94 ms step, from clean steps``; nothing where none is promised."""
    return f"; gains of {named}, {SURE[clean]}" if named else ""


def mark(row: FindingRow) -> str:
    """``! S2``: told by sign, never by colour alone."""
    return f"{SEVERITY_SIGNS[row.severity]} {row.id}"


def more(number: int) -> str:
    """Where so many other findings are, and what they rest on."""
    return f"{f'{number} more, and what' if number else 'What'} they rest on: --all (or tab Findings)"


NEARLY_THE_SAME = 0.99
"""Ends of a range that differ by less are one number."""
MOST_OF_IT = 50.0
"""A place with less than this part of a finding's work or time is not all that it is about."""


def uncapitalized(text: str) -> str:
    """The text as it goes on after a semicolon."""
    return f"{text[:1].lower()}{text[1:]}"


def place(row: FindingRow, width: int | None = None, *, ascii: bool = False) -> str:
    """Where it is: its first place in the program, else the kernel, operator or call that its evidence names first."""
    if row.where:
        at = "At" if (row.where[0].percent or 100) >= MOST_OF_IT else "Most at"
        return f"{at} {place_text(row.where[0], None if width is None else width - len(at) - 1, ascii=ascii)}"
    # rows of the path are resources, not places
    named = next((item.row for item in row.evidence if item.row and item.tab != "host:critical path"), "")
    return f"At {short_name(named)}" if named and short_name(named) not in row.title else ""


def base(row: FindingRow, whole: str = STEP, *, ascii: bool = False) -> str:
    """``a 40.94 ms step``: what the gain of a finding is of; empty where none is known."""
    if not row.impact_us or not row.ceiling_percent:
        return ""
    time, whole = format_us(100 * row.impact_us / row.ceiling_percent, ascii=ascii), _whole(row, whole)
    # without steps the headline and the list of parts say from when to when the run's time is
    return f"a {time} {whole}" if whole.endswith(STEP) else f"the run's {time}"


def _whole(row: FindingRow, whole: str) -> str:
    return "mean step" if row.impact_of == MEAN_STEP else whole


def lower_end(least: float | None, most: float | None) -> float | None:
    """The lower end of a gain; None where it is the upper one, which is the most and not what will be gained."""
    return None if not least or not most or least > NEARLY_THE_SAME * most else least


def gain(row: FindingRow, whole: str = STEP, named: str = "", *, ascii: bool = False) -> str:
    """``Gains 11.60 ms to 13.80 ms of a 27.90 ms step (41.6 to 49.5 %)``; ``at most`` where the ends do not differ.

    The base is left out where the page has `named` it.
    """
    most, share = row.impact_us, row.ceiling_percent
    if not most:
        return ""
    least = lower_end(row.impact_least_us, most)
    times = [format_us(time, ascii=ascii) for time in (least, most) if time is not None]
    said = " to ".join(times) if least is not None else f"at most {times[0]}"
    if not share:
        per = "per step" if _whole(row, whole) == STEP else f"of the {_whole(row, whole)}"
        return f"Costs {said} {per}; what can be gained is not known"
    of = base(row, whole, ascii=ascii)
    from_share = f"{format_percent(share * least / most)[:-2]} to " if least is not None and least < most else ""
    return f"Gains {said}{f' of {of}' if of != named else ''} ({from_share}{format_percent(share)})"


def in_turn(row: FindingRow, *, ascii: bool = False) -> str:
    """``3.21 ms at most after those above``: what is left of the gain; else which other findings gain the same time."""
    most, left = row.impact_us, row.impact_after_us
    if not most or left is None:
        return f"shared with {', '.join(row.shared_with)}" if row.shared_with else ""
    if NEARLY_THE_SAME * most < left < most / NEARLY_THE_SAME:
        return ""
    if left < (1 - NEARLY_THE_SAME) * most:
        return "after those above nothing"
    more = "more " if left > most else ""  # those above take away what hid it
    return f"{more}after those above{',' if more else ''} at most {format_us(left, ascii=ascii)}"


def evidence_text(item: Evidence, *, ascii: bool = False) -> str:
    """The value of one piece of evidence in the unit that suits it."""
    value = item.value
    if isinstance(value, str):
        return printable(value, ascii=ascii)
    unit = item.unit
    if unit.startswith("FLOP"):
        size, prefix = next(((size, prefix) for size, prefix in _PREFIXES if abs(value) >= size), (1, ""))
        return f"{format_number(value / size)} {prefix}{unit}"
    return printable(value_text(value, "hz" if unit == "Hz" else unit, ascii=ascii), ascii=ascii)


def looked(checked: int, abstained: int, aside: int) -> str:
    """``23 rules looked, 12 could not for want of evidence; 2 findings were set aside``."""
    text = f"{_count(checked, 'rule')} looked"
    text += f", {abstained} could not for want of evidence" if abstained else ""
    return text + (f"; {_count(aside, 'finding')} set aside" if aside else "")


NAMED = 6
"""Rules that miss the same thing are named up to so many, and counted beyond."""


def missing_by_reason(abstained: Sequence[AbstainedRow]) -> list[tuple[str, str]]:
    """What is missing, once for all the rules that miss it: (their ids or how many they are, what it is)."""
    rules: dict[str, list[str]] = {}
    for row in abstained:
        rules.setdefault(row.missing, []).append(row.id)
    return [(", ".join(ids) if len(ids) <= NAMED else f"{len(ids)} rules", missing) for missing, ids in rules.items()]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


DISAGREE_PERCENT = 5.0
"""From this share of the largest number on, results that should agree are said to differ."""


ALIKE = {
    "same": "results are the same",
    "rounding": "results are the same but for rounding",
    "differ": "results differ: check them",
    "unknown": "results can't be compared",
}
"""Of a change that was made from outside."""


def proof_text(row: ProofRow, *, ascii: bool = False) -> str:
    """One proof in a sentence: ``27.3 ms (27.1 ms to 27.6 ms) of at most 27.4 ms per step, by --attention fused``."""
    if row.gain_us is None:
        return f"{row.change} could not be measured: {row.explanation or 'no reason was kept'}"
    said = f"{_gain(row, ascii=ascii)}{_bound(row, ascii=ascii)}, by {row.change}"
    return f"{said}{_results(row)}"


def _gain(row: ProofRow, *, ascii: bool) -> str:
    def time(value: float) -> str:
        return format_us(value, ascii=ascii)

    gain, low, high = row.gain_us or 0.0, row.low_us, row.high_us
    if low is None or high is None:
        return f"{format_signed_us(gain, ascii=ascii)} in a single round"
    if low <= 0 <= high:
        return f"no gain ({format_signed_us(low, ascii=ascii)} to {format_signed_us(high, ascii=ascii)})"
    if high < 0:
        return f"{time(-gain)} slower ({time(-high)} to {time(-low)})"
    return f"{time(gain)} ({time(low)} to {time(high)})"


def _bound(row: ProofRow, *, ascii: bool) -> str:
    share = f" ({format_percent(row.gain_percent)} of the step)" if _is_sure(row) else ""
    if row.recorded_on:
        return (
            f" per step{share} on {row.device}; the recording is of {row.recorded_on}, whose bound says nothing"
            " about it"
        )
    bound, most = (None if time is None else format_us(time, ascii=ascii) for time in (row.bound_us, row.most_us))
    if row.exceeds:
        return f" per step, more than the bound of {most or bound}, which was too low"
    if row.does_more:
        limit = f" of at most {most}" if most is not None else ""
        return f"{limit} per step, more than the {bound} that the finding counts ({row.also})"
    known = most if bound is None else bound
    return f" per step{share}" if known is None else f" of at most {known} per step"


def _is_sure(row: ProofRow) -> bool:
    """Whether the interval leaves no doubt about the sign."""
    low, high = row.low_us, row.high_us
    return low is not None and high is not None and not low <= 0 <= high and row.gain_percent is not None


def _results(row: ProofRow) -> str:
    found = row.compared
    if found is None:
        return ""
    if found.alike is not None:
        return f"; {ALIKE.get(found.alike, ALIKE['unknown'])}"
    if found.largest is None:
        return f"; its {found.what} hold what is no number: check them"
    if not found.scale:
        return ""
    if not found.largest:
        return f"; {found.what} are the same"
    percent = 100 * found.largest / found.scale
    how = f"{found.what} differ by at most {found.largest:.2g} ({format_percent(percent)} of the largest)"
    if found.should_agree and percent > DISAGREE_PERCENT:
        return f"; but the {how}: check them"
    return f"; {how}"
