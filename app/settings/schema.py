"""The schema of settings, where they come from, and which value is in force.

From the strongest: the command line, the environment, what was chosen on the screen, the project's ``.tracetui.toml``,
the user's ``config.toml``, the default. What is wrong in one of them is said in a line, and the rest of it holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from tracetui.analysis.findings.config import find, read_toml, user_file
from tracetui.app.settings import state

Form = Literal["flag", "auto", "choice", "count", "name"]
"""``auto`` is true, false or "auto"; ``count`` a whole number; ``name`` a text that is checked where it is used."""
THEMES = ("auto", "dark", "light", "high-contrast", "ansi", "ansi-light")
COLORS = ("auto", "never", "16", "256", "truecolor")
NAMES = ("short", "full", "raw")
STATE = "settings"
"""Name of the file with what was chosen on the screen."""
CHOSEN = "chosen on the screen"
RULES = ("thresholds", "silence")
"""Tables about findings in the same files."""


@dataclass(frozen=True, slots=True)
class Option:
    """One setting of the schema."""

    key: str
    form: Form
    default: object
    about: str
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """Returns the allowed values in words."""
        if self.form == "choice":
            return ", ".join(f'"{choice}"' for choice in self.choices)
        return {
            "flag": "true, false",
            "auto": 'true, false, "auto"',
            "count": "a whole number, 0 for all",
            "name": "a name in quotes",
        }[self.form]

    @property
    def variable(self) -> str:
        """Returns the environment variable that sets it."""
        return f"TRACETUI_{self.key.upper()}"


SCHEMA = (
    Option("theme", "choice", "auto", "Colours of the screen; auto is dark, or ansi where colours are few or a line is "
           "slow", THEMES),
    Option("color", "choice", "auto", "How many colours there are; NO_COLOR in the environment means never", COLORS),
    Option("ascii", "flag", False, "No characters outside ASCII; by default where the locale is of ASCII, as LC_ALL=C"),
    Option("low_bandwidth", "auto", "auto", "Few colours, and tables scroll by half pages; auto is on over SSH"),
    Option("mouse", "auto", "auto", "The mouse; auto is on, but off over SSH"),
    Option("driver", "choice", "auto", "What sends the screen: only what differs, or Textual's own",
           ("auto", "cells", "stock")),
    Option("names", "choice", "short", "How kernel names are shown; raw is as the file has them", NAMES),
    Option("tab", "name", "", "The tab to start on, by its name or the start of it; if empty, the recording decides"),
    Option("limit", "count", None, "Rows per list in reports as text and Markdown; without it 10 in text and all in "
           "Markdown"),
    Option("cache", "flag", True, "Keep parsed recordings and printed reports, to be faster the next time"),
)  # fmt: skip
OPTIONS = {option.key: option for option in SCHEMA}
DEFAULTS = {option.key: option.default for option in SCHEMA}
TABLES = {
    "columns": "Columns to show and to hide, by page, given by name or title: `kernels = { show = [\"max\"] }`",
    "keys": "Keys by action: one key, a list of several, or an empty list for none: `\"table.filter\" = \"f\"`",
}  # fmt: skip
"""Settings that are tables, and what they hold."""


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """The columns of a page as the user wrote them: names or titles."""

    show: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """The settings in force, and where each comes from."""

    theme: str = "auto"
    color: str = "auto"
    ascii: bool = False
    low_bandwidth: bool | None = None
    """If None, the connection decides."""
    mouse: bool | None = None
    driver: str = "auto"
    names: str = "short"
    tab: str = ""
    limit: int | None = None
    cache: bool = True
    columns: Mapping[str, ColumnChoice] = field(default_factory=dict)
    """By page."""
    chosen_columns: Mapping[str, tuple[frozenset[str], frozenset[str]]] = field(default_factory=dict)
    """Columns hidden and pinned on the screen, by page; they take precedence over `columns`."""
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By action, as the user wrote them."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Where each setting was set, by key (``theme``, ``columns.kernels``, ``keys.table.filter``); without defaults."""
    problems: tuple[str, ...] = ()
    """Settings that could not be used, one line each."""
    unread: tuple[str, ...] = ()
    """The problems that concern whole files; code that reads thresholds reports these too."""
    configured: Mapping[str, object] = field(default_factory=dict)
    """The settings without choices made on the screen; a choice is kept as long as these stay the same."""

    def value(self, key: str) -> object:
        """Returns a setting as it would be written."""
        value = getattr(self, key)
        return "auto" if value is None and OPTIONS[key].form == "auto" else value


@dataclass
class _Layer:
    """The settings from one place."""

    origin: str
    values: dict[str, object] = field(default_factory=dict)
    columns: dict[str, ColumnChoice] = field(default_factory=dict)
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def refuse(self, key: str, value: object, allowed: str) -> None:
        written = f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else value
        self.problems.append(f"{self.origin}: {key} = {written}: allowed is {allowed}")


def in_ascii(environment: Mapping[str, str]) -> bool:
    """Returns whether the locale asks for ASCII: C, POSIX, or an encoding other than UTF-8; without one nobody asks."""
    kinds = [environment.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG")]
    if not kinds[0] and kinds[1] in ("C.UTF-8", "C.utf8", "UTF-8") and kinds[2] in ("C", "POSIX"):
        return True  # Python itself has set the second, because of the third
    asked = next(filter(None, kinds), "")
    encoding = asked.partition(".")[2].partition("@")[0].lower().replace("-", "")
    return asked in ("C", "POSIX") or (bool(encoding) and encoding != "utf8")


def resolve(
    given: Mapping[str, object], folders: Sequence[Path], environment: Mapping[str, str] | None = None
) -> Settings:
    """Returns the settings in force for a command.

    Args:
        given: the command line's values by key; None if not given.
        folders: folders in which, and above which, a project's file is searched.
        environment: the variables; by default those of this process.
    """
    environment = os.environ if environment is None else environment
    layers = [_Layer("the locale", {"ascii": True}, origins={"ascii": "the locale"})] if in_ascii(environment) else []
    for file in (user_file(), find(*folders)):
        if file is not None and file.is_file():
            layers.append(_of_file(file))
    variables = _of_environment(environment)
    line = _Layer("command line", {key: value for key, value in given.items() if value is not None and key in OPTIONS})
    line.origins = {key: f"--{key.replace('_', '-')}" for key in line.values}
    configured = _merged(layers)
    chosen = _chosen(configured)
    merged = _merged([*layers, chosen, variables, line])
    pages = _chosen_columns(configured)
    origins = dict(merged.origins)
    for page in pages:
        origins[f"columns.{page}"] = CHOSEN
    values = {
        key: None if value == "auto" and OPTIONS[key].form == "auto" else value for key, value in merged.values.items()
    }
    return Settings(
        **values,  # type: ignore[arg-type]
        columns=merged.columns,
        chosen_columns=pages,
        keys=merged.keys,
        origins=origins,
        problems=tuple(merged.problems),
        unread=tuple(merged.unread),
        configured=DEFAULTS | configured.values | {f"columns.{p}": _plain(c) for p, c in configured.columns.items()},
    )


def _merged(layers: Sequence[_Layer]) -> _Layer:
    """Merges all of them into one; the last is the strongest."""
    whole = _Layer("")
    for layer in layers:
        whole.values |= layer.values
        whole.columns |= layer.columns
        whole.keys |= layer.keys
        names = [*layer.values, *(f"columns.{page}" for page in layer.columns), *(f"keys.{id}" for id in layer.keys)]
        whole.origins |= {name: layer.origins.get(name, layer.origin) for name in names}
        whole.problems += layer.problems
        whole.unread += layer.unread
    return whole


def _plain(choice: ColumnChoice) -> object:
    return [list(choice.show), list(choice.hide)]


# --- files


def _of_file(file: Path) -> _Layer:
    """Reads the settings of a file; its tables about findings are read elsewhere."""
    layer = _Layer(str(file))
    content, problem = read_toml(file)
    if problem:
        layer.problems.append(problem)
        layer.unread.append(problem)
    for key, value in content.items():
        if key in OPTIONS:
            if _fits(OPTIONS[key], value):
                layer.values[key] = value
            else:
                layer.refuse(key, value, OPTIONS[key].allowed)
        elif key in TABLES:
            if isinstance(value, dict):
                (_read_columns if key == "columns" else _read_keys)(layer, value)
            else:
                layer.refuse(key, value, "a table")
        elif key not in RULES:
            from tracetui.parsers.errors import instead

            layer.problems.append(f"{file}: there is no setting {key}; {instead(key, [*OPTIONS, *TABLES, *RULES])}")
    return layer


def _fits(option: Option, value: object) -> bool:
    if option.form == "flag":
        return isinstance(value, bool)
    if option.form == "auto":
        return isinstance(value, bool) or value == "auto"
    if option.form == "count":
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
    return isinstance(value, str) and (option.form == "name" or value in option.choices)


def _read_columns(layer: _Layer, table: Mapping[str, Any]) -> None:
    for page, choice in table.items():
        if not isinstance(choice, dict):
            layer.refuse(f"columns.{page}", choice, "a table with show and hide")
            continue
        lists: dict[str, tuple[str, ...]] = {}
        for key, names in choice.items():
            if key not in ("show", "hide"):
                layer.problems.append(f"{layer.origin}: there is no columns.{page}.{key}; there are show, hide")
            elif isinstance(names, list) and all(isinstance(name, str) for name in names):
                lists[key] = tuple(names)
            else:
                layer.refuse(f"columns.{page}.{key}", names, "a list of names")
        if lists:
            layer.columns[page] = ColumnChoice(**lists)


def _read_keys(layer: _Layer, table: Mapping[str, Any]) -> None:
    for id, keys in _flat(table):
        if isinstance(keys, str):
            layer.keys[id] = (keys,)
        elif isinstance(keys, list) and all(isinstance(key, str) for key in keys):
            layer.keys[id] = tuple(keys)
        else:
            layer.refuse(f"keys.{id}", keys, "a key in quotes, or a list of them")


def _flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Flattens actions with their keys; ``table.filter = "f"`` without quotes is a table in a table."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield above + name, value


# --- the environment

_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _of_environment(environment: Mapping[str, str]) -> _Layer:
    layer = _Layer("environment")
    for option in SCHEMA:
        text = environment.get(option.variable)
        if not text:
            continue
        value: object = text
        if option.form in ("flag", "auto"):
            value = _WORDS.get(text.lower(), text.lower())
        elif option.form == "count" and text.isdecimal():
            value = int(text)
        if _fits(option, value):
            layer.values[option.key] = value
            layer.origins[option.key] = option.variable
        else:
            layer.problems.append(f"{option.variable}={text}: allowed is {option.allowed}")
    if environment.get("NO_COLOR") and "color" not in layer.values:
        layer.values["color"] = "never"
        layer.origins["color"] = "NO_COLOR"
    return layer


# --- what was chosen on the screen


def _chosen(configured: _Layer) -> _Layer:
    """Returns the choices made on the screen, as long as the files say the same as they did then."""
    layer = _Layer(CHOSEN)
    below = DEFAULTS | configured.values
    for key, kept in state.read(STATE).items():
        if not isinstance(kept, dict) or key not in OPTIONS or kept.get("over") != below[key]:
            continue
        if _fits(OPTIONS[key], kept.get("value")):
            layer.values[key] = kept["value"]
    return layer


def _chosen_columns(configured: _Layer) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    pages: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    kept = state.read(STATE).get("columns")
    for page, choice in kept.items() if isinstance(kept, dict) else ():
        below = configured.columns.get(page)
        if not isinstance(choice, dict) or choice.get("over") != (None if below is None else _plain(below)):
            continue
        lists = [choice.get("hidden"), choice.get("pinned")]
        if all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in lists):
            pages[page] = (frozenset(lists[0] or ()), frozenset(lists[1] or ()))
    return pages


def keep(settings: Settings, key: str, value: object) -> bool:
    """Keeps a choice made on the screen for the next start, unless the files say the same; returns success."""
    below = settings.configured.get(key)
    kept = state.read(STATE)
    kept.pop(key, None)
    if value != below:
        kept[key] = {"value": value, "over": below}
    return state.write(STATE, kept)


def keep_columns(settings: Settings, page: str, choice: tuple[frozenset[str], frozenset[str]] | None) -> bool:
    """Keeps the columns hidden and asked for of a page, None for those of the settings; returns whether that worked."""
    below = settings.configured.get(f"columns.{page}")
    kept = state.read(STATE)
    found = kept.get("columns")
    pages = dict(found) if isinstance(found, dict) else {}
    pages.pop(page, None)
    if choice is not None:
        pages[page] = {"hidden": sorted(choice[0]), "pinned": sorted(choice[1]), "over": below}
    kept["columns"] = pages
    return state.write(STATE, kept)


def fill(arguments: Any, folders: Sequence[Path]) -> Settings:
    """Fills a command's options that are not on the command line from the settings; returns the settings."""
    given = {key: getattr(arguments, key, None) for key in OPTIONS}
    settings = resolve(given, folders)
    for key in (each.name for each in fields(Settings) if each.name in OPTIONS):
        if not hasattr(arguments, key) or given[key] is not None or key == "tab":
            continue
        if key != "limit" or getattr(arguments, "format", "") in ("text", "markdown"):
            setattr(arguments, key, getattr(settings, key))
    return settings
