"""Thresholds and silenced rules that the user set in the project's ``.tracetui.toml`` or in their own file.

Both files also hold settings of the screen. This module reads only what concerns findings.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tracetui.analysis.findings.declared.rule import Rule

FILE = ".tracetui.toml"
USER_FILE = "config.toml"
_MOST_BYTES = 1 << 20
FOLDER_VARIABLE = "TRACETUI_CONFIG_DIR"


class Config(Struct, frozen=True):
    """What the files set; empty if there is no file."""

    thresholds: dict[str, float] = field(default_factory=dict)
    """By ``RULE.name``."""
    silenced: dict[str, str] = field(default_factory=dict)
    """Maps the id of each silenced rule to the user's reason."""
    problems: tuple[str, ...] = ()
    """One line for each entry of the files that could not be used."""


def user_file() -> Path:
    """The path of the user's own file, whether or not it exists."""
    if own := os.environ.get(FOLDER_VARIABLE):
        return Path(own) / USER_FILE
    from platformdirs import user_config_path

    return user_config_path("tracetui", appauthor=False) / USER_FILE


def find(*folders: Path) -> Path | None:
    """The project's file: the first one found in these folders or their parents."""
    for folder in folders:
        for place in (folder.absolute(), *folder.absolute().parents):
            if (file := place / FILE).is_file():
                return file
    return None


def load(*folders: Path) -> Config:
    """Reads the user's file and the project's; for each threshold and each rule the project's entry wins.

    ::

        [thresholds]
        "S2.late_percent" = 40

        [silence]
        F1 = "fp32 is needed for the reference run"

    Args:
        folders: where to look for the project's file; their parents are searched too.
    """
    own = user_file()
    mine = parse(own) if own.is_file() else Config()
    file = find(*folders)
    if file is None:
        return mine
    project = parse(file)
    return Config(
        mine.thresholds | project.thresholds, mine.silenced | project.silenced, mine.problems + project.problems
    )


def read_toml(file: Path) -> tuple[dict[str, Any], str]:
    """The content of a TOML file and, if it can't be read, one line that says why."""
    # imported here: most people have no such file
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        if file.stat().st_size > _MOST_BYTES:
            return {}, f"{file}: is larger than {_MOST_BYTES >> 20} MiB"
        return tomllib.loads(file.read_text(encoding="utf-8")), ""
    except UnicodeDecodeError:
        return {}, f"{file}: is not UTF-8 text"
    except OSError as error:
        return {}, f"{file}: {error.strerror or error}"
    except (ValueError, RecursionError) as error:
        return {}, f"{file}: {error}".replace("\n", " ")


_LARGEST = sys.float_info.max
"""TOML's whole numbers may have any number of digits."""


def parse(file: Path) -> Config:
    """Reads one file; reports the entries that can't be used and keeps the others."""
    content, problem = read_toml(file)
    if problem:
        return Config(problems=(problem,))
    problems: list[str] = []
    thresholds: dict[str, float] = {}
    for name, value in _table(content, "thresholds", file, problems).items():
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > _LARGEST:
            problems.append(f"{file}: threshold {name} is no number")
        elif not _is_known(name):
            problems.append(f"{file}: there is no threshold {name}; `tracetui reference rules` lists them")
        else:
            thresholds[name] = float(value)
    silenced: dict[str, str] = {}
    for name, reason in _table(content, "silence", file, problems).items():
        if not isinstance(reason, str) or not reason.strip():
            problems.append(f"{file}: {name} can only be silenced with a reason")
        elif name not in _rules():
            problems.append(f"{file}: there is no rule {name}; `tracetui reference rules` lists them")
        else:
            silenced[name] = reason
    return Config(thresholds, silenced, tuple(problems))


def _rules() -> Mapping[str, Rule]:
    # imported here: most people have no such file, and the catalogue imports every rule
    from tracetui.analysis.findings.catalogue import all_rules

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
