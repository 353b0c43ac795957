"""The user's own thresholds, and the rules they silenced: in the project's ``.tracetui.toml`` and in their own file.

Both files hold settings of the screen too; what of them is about findings is read here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tracetui.analysis.findings.core.rule import Rule

FILE = ".tracetui.toml"
USER_FILE = "config.toml"
FOLDER_VARIABLE = "TRACETUI_CONFIG_DIR"


@dataclass(frozen=True)
class Config:
    """What the files say; empty where there is none."""

    thresholds: dict[str, float] = field(default_factory=dict)
    """By ``RULE.name``."""
    silenced: dict[str, str] = field(default_factory=dict)
    """The reason by rule id."""
    problems: tuple[str, ...] = ()
    """What of the files could not be used, a line each."""


def user_file() -> Path:
    """The user's own file, whether it is there or not."""
    if own := os.environ.get(FOLDER_VARIABLE):
        return Path(own) / USER_FILE
    from platformdirs import user_config_path

    return user_config_path("tracetui", appauthor=False) / USER_FILE


def find(*folders: Path) -> Path | None:
    """The project's file: the first in these folders or in those above them."""
    for folder in folders:
        for place in (folder.absolute(), *folder.absolute().parents):
            if (file := place / FILE).is_file():
                return file
    return None


def load(*folders: Path) -> Config:
    """What the user's file says, and over it, threshold by threshold and rule by rule, the project's.

    ::

        [thresholds]
        "S2.idle_percent" = 40

        [silence]
        F1 = "fp32 is needed for the reference run"

    Args:
        folders: where the project's file is looked for, there and above.
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
    """What a TOML file holds, and, where it can't be read, why in a line."""
    import sys

    # imported here: most people have no such file
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        return tomllib.loads(file.read_text(encoding="utf-8")), ""
    except UnicodeDecodeError:
        return {}, f"{file}: is not UTF-8 text"
    except OSError as error:
        return {}, f"{file}: {error.strerror or error}"
    except (ValueError, RecursionError) as error:
        return {}, f"{file}: {error}".replace("\n", " ")


def parse(file: Path) -> Config:
    """One file; what of it can't be used is said, the rest holds."""
    content, problem = read_toml(file)
    if problem:
        return Config(problems=(problem,))
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
