"""The settings file, and what the screen remembers: no mistake in them stops the program or hides the rest."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from fuzz import road, values
from fuzz.case import NOTED, READ, Find, Plan
from fuzz.spans import BYTEWISE, Spans

FILE = """theme = "light"
color = "16"
ascii = true
low_bandwidth = false
mouse = "auto"
driver = "cells"
names = "full"
tab = "kernels"
limit = 7
cache = false

[columns.kernels]
show = ["max_ns"]
hide = ["calls"]

[keys]
"table.filter" = ["/", "f"]
"app.suspend" = []

[thresholds]
"S2.late_percent" = 20
"V2.least_steps" = 3

[silence]
F1 = "fp32 is needed for the reference run"
"""
STATE = {
    "settings": {
        "theme": {"value": "dark", "over": "light"},
        "columns": {"kernels": {"over": [[], []], "hidden": ["a"], "pinned": []}},
    },
    "left": {"version": 1, "runs": {}},
    "recent": {"version": 1, "entries": [{"path": "/x", "kinds": ["chrome"], "bytes": 5, "opened": 1.0}]},
}  # fmt: skip
SIMPLE = ("theme", "color", "ascii", "low_bandwidth", "driver", "names", "tab", "limit", "cache")


@dataclass
class SettingsDoc:
    """The lines of the file, and the remembered files."""

    lines: list[str]
    state: dict[str, Any]
    touched: set[str] = field(default_factory=set)
    """First words of lines that were changed."""
    torn: bool = False
    data: bytes | None = None
    remembered: dict[str, bytes] = field(default_factory=dict)

    def content(self) -> bytes:
        return "\n".join(self.lines).encode("utf-8", "surrogatepass") if self.data is None else self.data

    def write(self, folder: Path) -> Path:
        os.environ.update(TRACETUI_CONFIG_DIR=str(folder / "config"), TRACETUI_DATA_DIR=str(folder / "data"))
        os.environ.pop("TRACETUI_NO_STATE", None)
        for name in ("config", "data", "project"):
            (folder / name).mkdir()
        (folder / "config" / "config.toml").write_bytes(self.content())
        (folder / "project" / ".tracetui.toml").write_bytes(b'names = "raw"\n')
        for name, value in self.state.items():
            raw = self.remembered.get(name, values.written(value).encode("utf-8", "surrogatepass"))
            (folder / "data" / f"{name}.json").write_bytes(raw)
        return folder / "project"


def _line(doc: SettingsDoc, dice: Random) -> int:
    places = [at for at, line in enumerate(doc.lines) if line.strip()]
    at = dice.choice(places or [0])
    doc.touched.add(doc.lines[at].split(" ")[0])
    if doc.lines[at].startswith("["):
        doc.torn = True
    return at


def _toml(dice: Random) -> str:
    value = values.anything(dice)
    odd = ("1979-05-27", "'''x'''", "{ a = 1 }", "inf", "nan", "0o7", "[1, 'a']", "1" * 400, "true", '"light"', "-1")
    return dice.choice((values.written(value), str(value), *odd))


def odd_value(doc: SettingsDoc, dice: Random) -> None:
    for _ in range(dice.choice((1, 3))):
        at = _line(doc, dice)
        key, sign, _ = doc.lines[at].partition(" = ")
        if sign:
            doc.lines[at] = f"{key} = {_toml(dice)}"


def other_key(doc: SettingsDoc, dice: Random) -> None:
    at = _line(doc, dice)
    key, sign, value = doc.lines[at].partition(" = ")
    if sign:
        doc.lines[at] = (
            f"{dice.choice((json.dumps(values.text(dice)), key + 'x', 'columns', 'keys.a.b', 'thresholds'))} = {value}"
        )
        doc.torn = True


def removed(doc: SettingsDoc, dice: Random) -> None:
    del doc.lines[_line(doc, dice)]


def twice(doc: SettingsDoc, dice: Random) -> None:
    at = _line(doc, dice)
    doc.lines.insert(at, doc.lines[at])


TABLES = (
    "[columns]\nkernels = 5", "[columns.x]\nshow = 3", '[keys]\n"a" = 1', "[thresholds]\nx = nan", "[silence]\nS2 = 1",
    "[[columns]]", "[columns.kernels.show]", "[keys.table]\nfilter = ['f', 1]", "[thresholds.S2]\nlate_percent = 3",
    '[silence]\nS2 = ""', "[a.b.c.d]",
)  # fmt: skip


def other_tables(doc: SettingsDoc, dice: Random) -> None:
    """Tables of other types, for pages and actions that are none."""
    doc.lines.append(dice.choice(TABLES))
    doc.torn = True


def odd_state(doc: SettingsDoc, dice: Random) -> None:
    """What the screen remembers, in other shapes."""
    name = dice.choice(list(doc.state))
    value = doc.state[name]
    if isinstance(value, dict) and value and dice.random() < 0.8:
        key = dice.choice(list(value))
        inner = value[key]
        if isinstance(inner, dict) and inner and dice.random() < 0.6:
            doc.state[name] = {**value, key: {**inner, dice.choice(list(inner)): values.anything(dice)}}
        elif isinstance(inner, list) and inner and isinstance(inner[0], dict):
            doc.state[name] = {**value, key: [{**inner[0], dice.choice(list(inner[0])): values.anything(dice)}]}
        else:
            doc.state[name] = {**value, key: values.anything(dice)}
    else:
        doc.state[name] = values.anything(dice)


def state_bytes(doc: SettingsDoc, dice: Random) -> None:
    name = dice.choice(list(doc.state))
    spans = Spans(bytearray(values.written(doc.state[name]).encode("utf-8", "surrogatepass")), [])
    BYTEWISE[dice.choice(list(BYTEWISE))](spans, dice)
    doc.remembered[name] = bytes(spans.data)


def _bytewise(change: Any) -> Any:
    def changed(doc: SettingsDoc, dice: Random) -> None:
        spans = Spans(bytearray(doc.content()), [])
        change(spans, dice)
        doc.data, doc.torn = bytes(spans.data), True

    return changed


SHAPED = {
    "odd value": odd_value, "other key": other_key, "line removed": removed, "line twice": twice,
    "other tables": other_tables, "odd state": odd_state, "state's bytes": state_bytes,
}  # fmt: skip
TORN = {name: _bytewise(change) for name, change in BYTEWISE.items()}


class Settings:
    """`config.toml` and the remembered JSON."""

    name = "settings"
    shaped = SHAPED
    bytewise = TORN

    def __init__(self) -> None:
        self.known: Any = None

    def prepare(self, folder: Path) -> None:
        doc = self.base(None)
        self.known = _resolved(doc.write(folder))

    def base(self, dice: Any) -> SettingsDoc:
        return SettingsDoc(FILE.split("\n"), json.loads(json.dumps(STATE)))

    def examine(self, doc: SettingsDoc, plan: Plan, folder: Path) -> str:
        from tracetui.analysis.findings import config
        from tracetui.app.keys.commands import COMMANDS
        from tracetui.app.keys.keymap import remap
        from tracetui.app.screen import restoring
        from tracetui.app.settings import recent

        project = doc.write(folder)
        settings = _resolved(project)
        rules = config.load(project)
        for problem in (*settings.problems, *rules.problems):
            road.one_line(problem)
        if not doc.torn and not settings.unread:
            for key in SIMPLE:
                if key in doc.touched or (key == "theme" and (doc.remembered or doc.state != STATE)):
                    continue
                if settings.value(key) != self.known.value(key):
                    raise Find(f"{key} was {self.known.value(key)!r}, is {settings.value(key)!r}")
        if settings.names not in ("short", "full", "raw") or (
            settings.limit is not None and type(settings.limit) is not int
        ):
            raise Find(f"a setting of another type: {settings}")
        for problem in remap(COMMANDS, settings.keys).problems:
            road.one_line(problem)
        recent.recents()
        restoring.load(folder / "x.json")
        return NOTED if settings.problems or rules.problems else READ


def _resolved(project: Path) -> Any:
    from tracetui.app.settings.schema import resolve

    return resolve({}, [project], {})
