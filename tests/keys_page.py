"""Makes the documentation's page of keys from the registry of commands."""

from tracetui.app import tabs
from tracetui.app.keys import commands
from tracetui.app.keys.keymap import Command
from tracetui.app.tables.filters import FILTER_HELP

LETTERS = {
    "D": "draws: launches, a tree, the next number", "G": "to the end", "L": "to the longest, the latest",
    "P": "a picture for a slide", "d": "details; in the Timeline Perfetto's key", "e": "saves (exports) the view",
    "f": "follows to what launched it: the program's lines, the call",
    "g": "to the beginning", "h": "vim's left: to the parent, to earlier", "i": "details (information)",
    "j": "vim's down", "k": "vim's up", "l": "vim's right: into a row, to later",
    "n": "names: their form; the next event or hit of a name", "s": "sorts; in the Timeline Perfetto's key",
    "t": "to the timeline, to a time", "v": "tables: the next one, that of the marked range",
    "w": "copies the name (word); in the Timeline Perfetto's key",
    "x": "exchanges: A and B, a rank and the median; puts a lane or a finding aside", "y": "copies (yanks)",
}  # fmt: skip
"""The letters that several commands have, and what these have in common."""


def shared_letters() -> set[str]:
    """Returns the letters that several commands of views have; the list of runs has keys of its own."""
    keys = [key for command in commands.DEFAULTS if command.where != "runs" for key in command.keys.split(",")]
    return {key for key in keys if len(key) == 1 and key.isalpha() and keys.count(key) > 1}


def page() -> str:
    """Returns the text of `docs/reference/keys.md`."""
    lines = [
        "# Keys",
        "",
        "Made from `app/keys/commands.py` by `make screens`; `?` shows those of the view in front of you.",
        "",
        "Keys can be changed ([settings](settings.md)); commands without a key are in the palette (`ctrl+p`).",
        "",
    ]
    groups: dict[str, list[Command]] = {}
    for command in commands.DEFAULTS:
        groups.setdefault(command.group, []).append(command)
    for group, members in groups.items():
        lines += [f"## {group}", "", "| Key | What it does | Where | Action |", "|---|---|---|---|"]
        for command in members:
            where = (
                "everywhere"
                if not command.tabs
                else ", ".join(title for tab, title in tabs.TITLES.items() if tab in command.tabs) or "the list of runs"
            )
            shown = " ".join(f"`{key}`" for key in command.shown.split())
            where = "tables" if command.tabs == tabs.TABLES else where
            lines.append(f"| {shown} | {command.title} | {where} | `{command.id}` |")
        lines.append("")
    lines += ["## Letters of several commands", "", "| Key | What they have in common |", "|---|---|"]
    lines += [f"| `{letter}` | {common} |" for letter, common in LETTERS.items()]
    lines += ["", "## What `/` understands", "", "| Filter | Keeps |", "|---|---|"]
    lines += [f"| `{example.replace('|', chr(92) + '|')}` | {meaning} |" for example, meaning in FILTER_HELP]
    return "\n".join(lines) + "\n"
