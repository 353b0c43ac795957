"""The user's own thresholds, and the rules they silenced: ``.tracetui.toml`` beside the recording or the work."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = ".tracetui.toml"


@dataclass(frozen=True)
class Config:
    """What the file says; empty where there is none."""

    thresholds: dict[str, float] = field(default_factory=dict)
    """By ``RULE.name``."""
    silenced: dict[str, str] = field(default_factory=dict)
    """The reason by rule id."""
    problems: tuple[str, ...] = ()
    """What of the file could not be used, a line each."""


def load(*folders: Path) -> Config:
    """The first file found in these folders or in those above them.

    ::

        [thresholds]
        "S2.idle_percent" = 40

        [silence]
        F1 = "fp32 is needed for the reference run"
    """
    for folder in folders:
        for place in (folder.absolute(), *folder.absolute().parents):
            if (file := place / FILE).is_file():
                return parse(file)
    return Config()


def parse(file: Path) -> Config:
    """One file; what of it can't be used is said, the rest holds."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return Config(problems=(f"{file}: {error}",))
    problems: list[str] = []
    thresholds: dict[str, float] = {}
    for name, value in _table(content, "thresholds", file, problems).items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            problems.append(f"{file}: threshold {name} is no number")
        elif not _is_known(name):
            problems.append(f"{file}: there is no threshold {name}; `tracetui rules` lists them")
        else:
            thresholds[name] = float(value)
    silenced: dict[str, str] = {}
    for name, reason in _table(content, "silence", file, problems).items():
        if not isinstance(reason, str) or not reason.strip():
            problems.append(f"{file}: {name} can only be silenced with a reason")
        elif name not in _rules():
            problems.append(f"{file}: there is no rule {name}; `tracetui rules` lists them")
        else:
            silenced[name] = reason
    return Config(thresholds, silenced, tuple(problems))


def _rules() -> Any:
    from tracetui.analysis.findings.engine import all_rules

    return all_rules()


def _is_known(name: str) -> bool:
    rule, _, limit = name.partition(".")
    return rule in _rules() and limit in _rules()[rule].thresholds


def _table(content: dict[str, Any], name: str, file: Path, problems: list[str]) -> dict[str, Any]:
    table = content.get(name, {})
    if isinstance(table, dict):
        return table
    problems.append(f"{file}: [{name}] is no table")
    return {}
