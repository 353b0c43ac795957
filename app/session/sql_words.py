"""What helps to type a query: the names that may come next, and a pasted query as one line."""

from __future__ import annotations

import re

_WORD = re.compile(r"(\w+\.)?(\w*)$")
_PARTS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|(?:--[^\n]*|/\*.*?\*/|\s)+", re.DOTALL)


def frames_line() -> str:
    """The frames and tables that a query may name."""
    from tracetui.analysis.query.frames import ABOUT, frames

    tables = [name for name in frames() if name not in ABOUT]
    return f"frames: {' '.join(ABOUT)} · tables: {' '.join(tables)}"


def completed(before: str, behind: str = "") -> tuple[str, str]:
    """What follows the word at the end of a text, and the names that it may become.

    Args:
        before: the text before the cursor.
        behind: the text behind it, which may name the frames that the columns are of.

    Returns:
        The letters that all candidates share; the candidates in a line, which is empty where there is one or none.
    """
    from tracetui.analysis.query.frames import ABOUT, frames

    known = frames()
    match = _WORD.search(before)
    assert match is not None
    qualified, word = match.group(1), match.group(2).lower()
    named = [name for name in re.findall(r"\w+", f"{before[: match.start()]} {behind}".lower()) if name in known]
    columns = [column.name for name in dict.fromkeys(named) for column in known[name].columns]
    names = columns if qualified else [*columns, *known]
    if not word and not qualified and not named:
        return "", frames_line()
    if not word and not qualified:
        names = columns
    found = [name for name in dict.fromkeys(names) if name.startswith(word)]
    if not found:
        return "", frames_line()
    shared = 0
    while shared < min(map(len, found)) and len({name[shared] for name in found}) == 1:
        shared += 1
    more = found[0][len(word) : shared]
    if len(found) == 1:
        return more, f"{found[0]}: {known[found[0]].about}" if found[0] in ABOUT and not columns else ""
    return more, " ".join(found)


def one_line(sql: str) -> str:
    """A query of several lines as one, without its comments, which would hide the rest of the line."""

    def shorter(part: re.Match[str]) -> str:
        text = part.group()
        return text if text[0] in "'\"" else " "

    lines = sql.strip().splitlines()  # a terminal sends the ends of lines as it likes
    return _PARTS.sub(shorter, "\n".join(lines)).strip() if len(lines) > 1 else "".join(lines)
