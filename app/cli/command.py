"""Makes the command line of the commands: each is a module of `commands` with a dataclass `Options` and `run(options)`.

A module is imported when its command is chosen, so `--help` and `--version` answer without Polars and Textual.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from importlib import import_module
from inspect import get_annotations
from types import ModuleType
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

from tracetui.app.text.exit_codes import DONE

Values: TypeAlias = Literal["none", "any", "words", "list", "pairs", "files", "folders", "programs"]
"""What follows an option: nothing, anything, one of some words, several with commas, ``name=…``, a path."""
COMMANDS = {
    "open": "explore a trace (prints the report if there is no terminal)",
    "report": "print what the tabs show",
    "check": "go through the profiling checklist",
    "diff": "compare two runs, per step",
    "sweep": "compare many runs that differ in an option",
    "ranks": "compare the ranks of a large job",
    "query": "ask a recording in SQL (needs tracetui[query])",
    "profile": "launch a profiled run and open it",
    "try": "make changes, to your own program from outside, and measure what they gain",
    "scrub": "copy a recording without host names, paths, commands and environments",
    "cut": "copy part of a Chrome trace into a smaller one",
    "doctor": "check terminal, torch, profilers, permissions and machine state",
    "serve": "show the screen in a browser (needs tracetui[web])",
    "mcp": "answer a program over the Model Context Protocol (needs tracetui[mcp])",
    "config": "show your settings and where each comes from",
    "config completion": "print a script that completes commands in your shell",
    "config cache": "show or empty the cache of parsed traces and printed reports",
    "reference": "print the rules, the models, the JSON Schemas, or what an agent needs to know",
    "reference rules": "list the rules behind the findings, with their thresholds",
    "reference models": "list the models that can be profiled by name",
    "reference schema": "print the JSON Schema of a command's JSON",
    "reference skill": "print what a coding agent needs to know",
}
"""Each command with its line in `--help`; the last word of its name is its module in `commands`."""
GROUP = "reference"
"""The command that only holds others."""
RENAMED = {name.split()[1]: name for name in COMMANDS if " " in name} | {"prove": "try"}
"""What commands were called before they became part of another one, and still may be."""
TAKE_PROGRAMS = ("profile", "try", "prove")
"""Commands after which `--` begins a program of the user's own."""
HIDDEN = argparse.SUPPRESS
EXIT_CODES = """\
exit codes:
  0  done
  1  the input can't be read (one line on standard error says which file and why)
  2  wrong usage
  3  a --fail-on condition holds
  4  a --fail-on condition can't be judged: the runs did other work, or do not
     tell a change from chance
"""


class Argument(NamedTuple):
    """How a field is typed on the command line."""

    flags: tuple[str, ...]
    """None for a positional argument."""
    details: dict[str, Any]
    """For `argparse.ArgumentParser.add_argument`."""
    opposite: tuple[str, str, object] | None
    """A switch that gives the field another value: its flag, its help, and the value."""
    group: tuple[str, ...]
    """Title and description of the part of `--help` in which it stands."""
    either: str
    """Of the arguments with the same text only one may be given."""
    last: bool
    """Whether it stands behind the command's own."""
    values: Values | None
    """What shells complete; None for what `details` say."""
    words: Callable[[], Sequence[str]]
    """And the words, which may take long to find."""


def option(
    *flags: str,
    default: object = None,
    opposite: tuple[str, str, object] | None = None,
    either: str = "",
    last: bool = False,
    values: Values | None = None,
    words: Callable[[], Sequence[str]] | None = None,
    **details: Any,
) -> Any:
    """Declares a field of `Options` as an option, or without flags as a positional argument: see `Argument`.

    Of a class with `group` or `last` all fields are so.
    """
    values = values or ("words" if words else None)
    details["default"] = default
    argument = Argument(flags, details, opposite, (), either, last, values, words or tuple)
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata={"argument": argument})
    return field(default=None if default is HIDDEN else default, metadata={"argument": argument})


def switch(*flags: str, **details: Any) -> Any:
    """Declares a field that is true if the option is given."""
    return option(*flags, **{"action": "store_true", "default": False, **details})


def declared(options: type) -> Iterator[tuple[str, Argument]]:
    """Yields fields with their arguments: those of the base classes, the command's own, and those that stand last."""
    arguments: dict[str, Argument] = {}
    for cls in reversed(options.__mro__):
        for name in get_annotations(cls):
            details = getattr(cls, "__dataclass_fields__", {}).get(name)
            if details is not None and "argument" in details.metadata:
                argument = details.metadata["argument"]
                last = argument.last or "last" in vars(cls)
                arguments[name] = argument._replace(group=vars(cls).get("group", ()), last=last)
    yield from sorted(arguments.items(), key=lambda item: item[1].last)


def module_of(name: str) -> ModuleType:
    """Imports the module of a command; those of `reference` have a folder of their own."""
    path = name.replace(" ", ".") if name.startswith(GROUP) else name.split()[-1]
    path = {"try": "prove"}.get(path, path)  # a word that Python keeps for itself
    return import_module(f"tracetui.app.cli.commands.{path}")


def members(name: str) -> dict[str, str]:
    """Returns the commands that are part of this one, by the word that chooses them, with their lines of help."""
    return {full.split()[1]: line for full, line in COMMANDS.items() if full.startswith(f"{name} ")}


def chosen(words: Sequence[str]) -> tuple[str, list[str]]:
    """Returns the command's name as it was typed, empty for none, and the words with its present name as one word."""
    rest = list(words)
    places = [place for place, word in enumerate(rest) if not word.startswith("-")][:2]
    if not places:
        return "", rest
    typed = rest[places[0]]
    if (both := " ".join(rest[place] for place in places)) in COMMANDS and len(places) == 2:
        typed = both
        del rest[places[1]]
    rest[places[0]] = RENAMED.get(typed, typed)
    return typed, rest


def build_parser(command: str = "") -> argparse.ArgumentParser:
    """Builds the parser with the names of all commands and the options of this one."""
    parser = argparse.ArgumentParser(
        prog="tracetui",
        description="Explore GPU performance traces in the terminal: what is slow, and why.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    parser.add_argument("--debug", action="store_true", help="show a traceback if something goes wrong")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", help="without a command: list what was opened lately"
    )
    for name, line in COMMANDS.items():
        if " " not in name:
            commands.add_parser(name, help=line)
    if command in COMMANDS:
        fill(commands.choices[command] if " " not in command else commands.add_parser(command), command)
    return parser


def fill(parser: argparse.ArgumentParser, command: str) -> None:
    """Adds what a command takes to its parser."""
    if command == GROUP:
        parser.description = f"{COMMANDS[command][:1].upper()}{COMMANDS[command][1:]}."
        parts = parser.add_subparsers(metavar="WHAT", required=True)
        for name, line in members(command).items():
            parts.add_parser(name, help=line)
        return
    options = module_of(command).Options
    parser.description = options.__doc__
    parser.usage = getattr(options, "usage", None)
    parser.epilog = "; ".join(f"`tracetui {command} {name}`: {line}" for name, line in members(command).items()) or None
    places: dict[tuple[str, ...] | str, Any] = {}
    for name, argument in declared(options):
        place: Any = parser
        if argument.group:
            place = places[argument.group] = places.get(argument.group) or parser.add_argument_group(*argument.group)
        if argument.either:
            place = places[argument.either] = places.get(argument.either) or place.add_mutually_exclusive_group()
        if argument.flags:
            place.add_argument(*argument.flags, dest=name, **argument.details)
        else:
            place.add_argument(name, **argument.details)
        if argument.opposite is not None:
            flag, line, value = argument.opposite
            place.add_argument(flag, dest=name, action="store_const", const=value, help=line)


class _Version(argparse.Action):
    """Looks up the version only on request: reading package metadata takes longer than everything else here."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(f"tracetui {version('tracetui')}")
        parser.exit(DONE)
