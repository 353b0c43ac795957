"""Checks the terminal: its size, colours, characters, and whether it is reached over SSH."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.collectors.checks.check import OK, SKIPPED, WARN, Check

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tracetui.collectors.checks.check import Machine

GROUP = "Terminal"
COLUMNS, LINES = 80, 24


def checks(machine: Machine) -> list[Check]:
    """Checks what the screen needs of the terminal."""
    return [_size(machine), _colours(machine.environment), _characters(machine.environment), _way(machine.environment)]


def _size(machine: Machine) -> Check:
    terminal = machine.terminal
    if not terminal.is_terminal:
        return Check(GROUP, "size", SKIPPED, "the output is not a terminal")
    size = f"{terminal.columns} columns, {terminal.lines} lines"
    if terminal.columns < COLUMNS or terminal.lines < LINES:
        return Check(GROUP, "size", WARN, f"{size}: less than {COLUMNS} x {LINES}", "enlarge the window")
    return Check(GROUP, "size", OK, size)


def _colours(environment: Mapping[str, str]) -> Check:
    term = environment.get("TERM", "")
    if environment.get("NO_COLOR"):
        return Check(GROUP, "colours", OK, "none, as NO_COLOR asks")
    if term in ("", "dumb"):
        said = "TERM is not set" if not term else "TERM is dumb: no screen can be drawn"
        return Check(GROUP, "colours", WARN, said, "export TERM=xterm-256color")
    if environment.get("COLORTERM", "").lower() in ("truecolor", "24bit") or "direct" in term:
        return Check(GROUP, "colours", OK, f"all (TERM {term})")
    if "256color" in term or term in ("xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm"):
        return Check(GROUP, "colours", OK, f"256 (TERM {term})")
    if term.startswith(("screen", "tmux")):
        remedy = "tmux set -g default-terminal tmux-256color"
        return Check(GROUP, "colours", WARN, f"16 (TERM {term})", remedy)
    if term == "linux":
        return Check(GROUP, "colours", OK, "16, the console has no more")
    return Check(GROUP, "colours", WARN, f"16 (TERM {term})", "export TERM=xterm-256color, if the terminal can")


def _characters(environment: Mapping[str, str]) -> Check:
    name = next((environment[key] for key in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(key)), "")
    if "utf-8" in name.lower() or "utf8" in name.lower():
        return Check(GROUP, "characters", OK, f"UTF-8 ({name})")
    said = f"the locale is {name}, not UTF-8" if name else "no locale is set: LANG, LC_CTYPE and LC_ALL are empty"
    return Check(GROUP, "characters", WARN, said, "export LC_ALL=C.UTF-8, or give --ascii")


def _way(environment: Mapping[str, str]) -> Check:
    ways = []
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        ways.append("over SSH: the mouse is off unless --mouse is given")
    if environment.get("TMUX"):
        ways.append("in tmux")
    elif environment.get("STY"):
        ways.append("in screen")
    return Check(GROUP, "connection", OK, ", ".join(ways) or "local")
