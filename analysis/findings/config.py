"""Thresholds and silenced findings that the user set in the project's ``.tracetui.toml`` or in their own file.

Both files also hold settings of the screen. This module reads only what concerns findings, and writes what is silenced.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

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
    """Maps the id of each silenced rule, or the key of a single finding, to the user's reason."""
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
    """Reads the user's file and the project's; for each threshold and each finding the project's entry wins.

    ::

        [thresholds]
        "S2.late_percent" = 40

        [silence]
        F1 = "fp32 is needed for the reference run"
        "F3:9f2c01ab" = "this kernel is measured alone"

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


def silenced_in(*folders: Path) -> Path:
    """The file that `silence` writes to: the project's or, where that can't be written, the user's own."""
    from tracetui.parsers.runs.comments import ships

    home = folders[0] if folders[0].is_dir() else folders[0].parent
    file = find(*folders) or home / FILE
    # a recording's folder does not choose what is written elsewhere, and is often somebody else's
    mine = not ships(file) and not file.is_symlink() and os.access(file if file.exists() else file.parent, os.W_OK)
    return file if mine else user_file()


def silence(name: str, reason: str, *folders: Path) -> Path:
    """Writes that a finding is silenced into the file that `silenced_in` names.

    Args:
        name: the id of a rule, or the key of one of its findings.
        reason: why; empty to take the entry out of every file that has it.
        folders: as for `load`; where there is no project's file, it is made in the first.

    Returns:
        The file that was written last.

    Raises:
        TraceError: none could be written, and why.
    """
    from tracetui.parsers.errors import TraceError
    from tracetui.parsers.written import refuse

    own, project = user_file(), find(*folders)
    refuse(own, force=True)
    if not reason:
        having = [file for file in (project, own) if file is not None and name in parse(file).silenced]
        for file in having:
            _change(file, name, reason)
        return having[-1] if having else own
    if (file := silenced_in(*folders)) != own:
        with contextlib.suppress(TraceError):  # of a form that is not changed here
            return _change(file, name, reason)
    own.parent.mkdir(parents=True, exist_ok=True)
    return _change(own, name, reason)


_HEADER = re.compile(r"\s*\[")
_SILENCE = re.compile(r"\s*\[\s*silence\s*\]\s*(#.*)?")


def _change(file: Path, name: str, reason: str) -> Path:
    """Puts one entry into ``[silence]`` of a file, or takes it out, and leaves every other line as it is."""
    from tracetui.parsers.errors import TraceError
    from tracetui.parsers.written import write_text

    content, problem = read_toml(file) if file.exists() else ({}, "")
    if problem:
        raise TraceError(file, problem.removeprefix(f"{file}: "), "mend it first")
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
    begin = next((at + 1 for at, line in enumerate(lines) if _SILENCE.fullmatch(line.rstrip())), None)
    if begin is None:
        lines += ["\n"] * bool(lines) + ["[silence]\n"]
        begin = len(lines)
    end = next((at for at in range(begin, len(lines)) if _HEADER.match(lines[at])), len(lines))
    mine = re.compile(rf"""\s*["']?{re.escape(name)}["']?\s*=""")
    entries = [line for line in lines[begin:end] if not mine.match(line)]
    table = {key: why for key, why in _table(content, "silence", file, []).items() if key != name}
    if reason:
        said = "".join(letter for letter in " ".join(reason.split()) if letter.isprintable())
        table[name] = said
        key = json.dumps(name) if ":" in name else name
        entries.insert(0, f"{key} = {json.dumps(said, ensure_ascii=False)}\n")
    text = "".join((*lines[:begin], *entries, *lines[end:]))
    try:
        meant = _toml(text) == content | {"silence": table}
    except ValueError:
        meant = False
    if not meant:
        raise TraceError(file, "its [silence] is written in a form that is not changed here", "change it by hand")
    if file.exists() and not os.access(file, os.W_OK):
        raise TraceError(file, "can't be written", "change its permissions")
    write_text(file, text, force=True)
    return file


def read_toml(file: Path) -> tuple[dict[str, Any], str]:
    """The content of a TOML file and, if it can't be read, one line that says why."""
    try:
        if file.stat().st_size > _MOST_BYTES:
            return {}, f"{file}: is larger than {_MOST_BYTES >> 20} MiB"
        return _toml(file.read_text(encoding="utf-8")), ""
    except UnicodeDecodeError:
        return {}, f"{file}: is not UTF-8 text"
    except OSError as error:
        return {}, f"{file}: {error.strerror or error}"
    except (ValueError, RecursionError) as error:
        return {}, f"{file}: {error}".replace("\n", " ")


def _toml(text: str) -> dict[str, Any]:
    # imported here: most people have no such file
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    content: dict[str, Any] = tomllib.loads(text)
    return content


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
        elif name.partition(":")[0] not in _rules():
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
