"""What `tracetui prove` measured, in words: on the screen, in every report and on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_percent, format_signed_us, format_us

if TYPE_CHECKING:
    from tracetui.analysis.base.json_values import Json

DISAGREE_PERCENT = 5.0
"""From this share of the largest number on, results that should agree are said to differ."""


def proof_text(row: Json, *, ascii: bool = False) -> str:
    """One proof in a sentence: ``27.3 ms (27.1 ms to 27.6 ms) of at most 27.4 ms per step, by --attention fused``.

    Args:
        row: one of the key ``proofs`` of a finding (`analysis.report.findings.proof_row`).
        ascii: no characters outside ASCII.
    """
    if row["gain_us"] is None:
        return f"{row['change']} could not be measured: {row['explanation'] or 'no reason was kept'}"
    said = f"{_gain(row, ascii=ascii)}{_bound(row, ascii=ascii)}, by {row['change']}"
    return f"{said}{_results(row)}"


def _gain(row: Json, *, ascii: bool) -> str:
    def time(value: float) -> str:
        return format_us(value, ascii=ascii)

    gain, low, high = row["gain_us"], row["low_us"], row["high_us"]
    if low is None:
        return f"{format_signed_us(gain, ascii=ascii)} in a single round"
    if low <= 0 <= high:
        return f"no gain ({format_signed_us(low, ascii=ascii)} to {format_signed_us(high, ascii=ascii)})"
    if high < 0:
        return f"{time(-gain)} slower ({time(-high)} to {time(-low)})"
    return f"{time(gain)} ({time(low)} to {time(high)})"


def _bound(row: Json, *, ascii: bool) -> str:
    share = f" ({format_percent(row['gain_percent'])} of the step)" if _is_sure(row) else ""
    if row["recorded_on"]:
        return (
            f" per step{share} on {row['device']}; the recording is of {row['recorded_on']}, whose bound says nothing"
            " about it"
        )
    bound, most = (None if row[key] is None else format_us(row[key], ascii=ascii) for key in ("bound_us", "most_us"))
    if row["exceeds"]:
        return f" per step, more than the bound of {most or bound}, which was too low"
    if row["does_more"]:
        limit = f" of at most {most}" if most is not None else ""
        return f"{limit} per step, more than the {bound} that the finding counts ({row['also']})"
    known = most if bound is None else bound
    return f" per step{share}" if known is None else f" of at most {known} per step"


def _is_sure(row: Json) -> bool:
    """Whether the interval leaves no doubt about the sign."""
    low, high = row["low_us"], row["high_us"]
    return low is not None and high is not None and not low <= 0 <= high and row["gain_percent"] is not None


def _results(row: Json) -> str:
    found = row["compared"]
    if found is None:
        return ""
    if found["largest"] is None:
        return f"; its {found['what']} hold what is no number: check them"
    if not found["scale"]:
        return ""
    if not found["largest"]:
        return f"; {found['what']} are the same"
    percent = 100 * found["largest"] / found["scale"]
    how = f"{found['what']} differ by at most {found['largest']:.2g} ({format_percent(percent)} of the largest)"
    if found["should_agree"] and percent > DISAGREE_PERCENT:
        return f"; but the {how}: check them"
    return f"; {how}"
