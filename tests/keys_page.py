"""Makes the documentation's page of keys from the registry of commands."""

from tracetui.app import tabs
from tracetui.app.keys import commands
from tracetui.app.keys.keymap import Command
from tracetui.app.tables.filters import FILTER_HELP


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
    lines += ["## What `/` understands", "", "| Filter | Keeps |", "|---|---|"]
    lines += [f"| `{example.replace('|', chr(92) + '|')}` | {meaning} |" for example, meaning in FILTER_HELP]
    return "\n".join(lines) + "\n"
