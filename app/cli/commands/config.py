"""`tracetui config`: shows the settings in force and where each comes from, and a file to begin with."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tracetui.analysis.findings.config import find, user_file
from tracetui.analysis.tables.kernels import KERNELS, MEASURED
from tracetui.analysis.tables.registry import TABLES
from tracetui.analysis.tables.table import Field
from tracetui.app.cli.command import option, switch
from tracetui.app.cli.options import Plain, format_option
from tracetui.app.settings import schema, state
from tracetui.app.settings.schema import Option, Settings
from tracetui.app.text.exit_codes import DONE, UsageError
from tracetui.app.text.fitting import printable, to_ascii

Shown = TypeVar("Shown")
"""What one of the options asks to see."""


@dataclass(kw_only=True)
class Options(Plain):
    """Show the settings in force and where each comes from. The strongest first: command line, environment, what was
    chosen on the screen, the project's .tracetui.toml, your config.toml, default.
    """

    path: Path | None = option(
        nargs="?",
        type=Path,
        metavar="PATH",
        help="show the settings that hold for this recording (default: for this folder)",
    )
    where: bool = switch("--path", either="what", help="print only the path of your file")
    init: bool = switch("--init", either="what", help="write your file, with every setting explained")
    keys: bool = switch("--keys", either="what", help="list the actions with their keys")
    columns: bool = switch("--columns", either="what", help="list the pages with their columns")
    reset: bool = switch("--reset", either="what", help="reset what was chosen on the screen")
    format: str = format_option("text", "json")
    settings: Any = field(default=None)


def run(options: Options) -> int:
    """Shows the settings or what else was asked for, or writes the first file."""
    settings: Settings = options.settings
    as_json = options.format == "json"
    if options.where:
        print(user_file())
    elif options.init:
        print(f"wrote {init()}")
    elif options.reset:
        forgotten = state.forget(schema.STATE)
        print("forgotten: what was chosen on the screen" if forgotten else "nothing was chosen on the screen")
    elif options.keys:
        _show(_keys(settings), as_json=as_json, text=_keys_text, ascii=options.ascii)
    elif options.columns:
        _show(_columns(), as_json=as_json, text=_columns_text, ascii=options.ascii)
    else:
        project = find(*([options.path] if options.path is not None else []), Path.cwd())
        _show(_settings(settings, project), as_json=as_json, text=_text, ascii=options.ascii)
    return DONE


def _show(content: Shown, *, as_json: bool, text: Callable[[Shown], list[str]], ascii: bool) -> None:
    if as_json:
        json.dump(content, sys.stdout, indent=2)
        print()
    else:
        shown = "\n".join(printable(line) for line in text(content))
        print(to_ascii(shown) if ascii else shown)


# --- the settings


def _settings(settings: Settings, project: Path | None) -> dict[str, Any]:
    """Returns every setting in force, in the shape of the JSON output."""
    values = {
        option.key: {"value": settings.value(option.key), "from": settings.origins.get(option.key, "default")}
        for option in schema.SCHEMA
    }
    columns: dict[str, Any] = {
        page: {"show": list(choice.show), "hide": list(choice.hide), "from": settings.origins[f"columns.{page}"]}
        for page, choice in settings.columns.items()
    }
    for page, (hidden, pinned) in settings.chosen_columns.items():
        columns[page] = {"show": sorted(pinned), "hide": sorted(hidden), "from": schema.CHOSEN}
    keys = {
        id: {"keys": list(written), "from": settings.origins.get(f"keys.{id}", "")}
        for id, written in settings.keys.items()
    }
    own = user_file()
    return {
        "files": {
            "user": {"path": str(own), "there": own.is_file()},
            "project": {"path": None if project is None else str(project), "there": project is not None},
            "chosen": {"path": str(state.folder() / f"{schema.STATE}.json"), "there": bool(state.read(schema.STATE))},
        },
        "settings": values,
        "columns": columns,
        "keys": keys,
        "problems": problems(settings),
    }


def problems(settings: Settings) -> list[str]:
    """Returns all problems, including those that are otherwise found only when the screen is shown."""
    found = list(settings.problems)
    if settings.tab:
        from tracetui.app.keys.commands import find_tab

        try:
            find_tab(settings.tab)
        except UsageError as problem:
            found.append(f"{settings.origins.get('tab', '')}: {problem}")
    if settings.keys:
        from tracetui.app.keys.commands import DEFAULTS
        from tracetui.app.keys.keymap import remap

        for line in remap(DEFAULTS, settings.keys).problems:
            origin = settings.origins.get(line.partition(":")[0], "")
            found.append(f"{origin}: {line}" if origin else line)
    if settings.columns:
        from tracetui.app.screen.preferences import named_columns

        pages = known_columns()
        for page, choice in settings.columns.items():
            origin = settings.origins.get(f"columns.{page}", "")
            if page not in pages:
                found.append(f"{origin}: there is no page {page}; `tracetui config --columns` lists them")
            else:
                for name in named_columns((*choice.show, *choice.hide), pages[page])[1]:
                    found.append(f"{origin}: columns.{page} has no {name}; `tracetui config --columns` lists them")
    return found


def _text(content: dict[str, Any]) -> list[str]:
    files = content["files"]
    lines = []
    for title, name, absent in (
        ("yours", "user", "not there: tracetui config --init writes it"),
        ("project", "project", "none here: .tracetui.toml beside the recording or in a parent folder"),
        ("chosen", "chosen", "nothing was chosen on the screen yet"),
    ):
        path = files[name]["path"]
        lines.append(f"{title:<10}{path if files[name]['there'] else f'{path} ({absent})' if path else absent}")
    lines.append("")
    rows = [(key, written(entry["value"]), entry["from"]) for key, entry in content["settings"].items()]
    rows += [
        (f"columns.{page}", f"show {written(entry['show'])} hide {written(entry['hide'])}", entry["from"])
        for page, entry in content["columns"].items()
    ]
    rows += [(f"keys.{id}", written(entry["keys"]), entry["from"]) for id, entry in content["keys"].items()]
    first = max(len(row[0]) for row in rows)
    second = min(max(len(row[1]) for row in rows), 30)
    lines += [f"{key:<{first}}  {value:<{second}}  {origin}" for key, value, origin in rows]
    if content["problems"]:
        lines += ["", "not used:", *(f"  {problem}" for problem in content["problems"])]
    return lines


# --- keys and columns


def _keys(settings: Settings) -> list[dict[str, Any]]:
    from tracetui.app import tabs
    from tracetui.app.keys import commands

    remapped = commands.use_keys(settings.keys)
    for problem in remapped.problems:
        print(f"tracetui: warning: {printable(problem)}", file=sys.stderr)
    return [
        {
            "action": command.id,
            "keys": [key for key in command.keys.split(",") if key],
            "shown": command.shown,
            "title": command.title,
            "tabs": [tab for tab in tabs.NAMES if not command.tabs or tab in command.tabs],
            "changed": command.id in remapped.changed,
        }
        for command in commands.COMMANDS
    ]


def _keys_text(rows: list[dict[str, Any]]) -> list[str]:
    width = max(len(row["action"]) for row in rows)
    return [
        f"{row['action']:<{width}} {'*' if row['changed'] else ' '} {row['shown'] or '-':<13} {row['title']}"
        for row in rows
    ]


def _columns() -> dict[str, list[dict[str, Any]]]:
    return {
        page: [{"name": column.name, "title": column.label, "shown": not column.hidden} for column in columns]
        for page, columns in known_columns().items()
    }


def _columns_text(pages: dict[str, list[dict[str, Any]]]) -> list[str]:
    from tracetui.app.text.fitting import wrapped

    lines: list[str] = []
    for page, columns in pages.items():
        names = ", ".join(column["name"] + ("" if column["shown"] else " (hidden)") for column in columns)
        lines += [f"columns.{page}", *(f"  {line}" for line in wrapped(names, 76))]
    return lines


# --- the first settings file


def init() -> Path:
    """Writes the user's file with every setting as a comment, and returns its path.

    Raises:
        UsageError: the file exists already.
        OSError: the file can't be written.
    """
    file = user_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        raise UsageError(f"{file} exists already and is not changed") from None
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(example())
    return file


def known_columns() -> dict[str, tuple[Field, ...]]:
    """By page of the tabs, every column it may have; which of them a recording has depends on what was recorded."""
    columns = {table.id: table.columns for table in TABLES.values() if table.page}
    return columns | {KERNELS.id: (*KERNELS.columns, *MEASURED)}


def example() -> str:
    """Returns a file with every setting in it, as a comment with its default."""
    lines = [
        "# Settings of tracetui. Commented lines show the defaults; `tracetui config` shows what is in force.",
        "",
    ]
    for setting in schema.SCHEMA:
        lines += [f"# {setting.about}.", f"# {setting.allowed}", f"# {setting.key} = {_default(setting)}", ""]
    lines += [
        "# Columns to show and to hide, by page; `tracetui config --columns` lists them.",
        "# [columns.kernels]",
        '# show = ["max_ns"]',
        '# hide = ["calls"]',
        "",
        "# Other keys for actions: `tracetui config --keys` lists them. One key, several, or none.",
        "# [keys]",
        '# "table.filter" = ["/", "f"]',
        '# "app.suspend" = []',
        "",
        "# Thresholds of findings, and findings to silence, with the reason; `tracetui reference rules` lists them.",
        "# [thresholds]",
        '# "S2.late_percent" = 20',
        "# [silence]",
        '# F1 = "fp32 is needed for the reference run"',
    ]
    return "\n".join(lines) + "\n"


def _default(setting: Option) -> str:
    return "10" if setting.default is None else written(setting.default)


def written(value: object) -> str:
    """A value as TOML has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else json.dumps(value, ensure_ascii=False)
