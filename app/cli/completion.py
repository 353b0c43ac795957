"""Makes the scripts that complete the command line in bash, zsh and fish from the parser, so that the two agree.

The scripts stand alone: no Python is started while somebody types. A tool of one's own after `--` is completed as the
shell completes it elsewhere.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tracetui.app.cli.arguments import build_parser
from tracetui.app.cli.options.shared import SAMPLES
from tracetui.app.cli.options.values import input_path

Values = Literal["none", "any", "words", "list", "pairs", "files", "folders", "programs"]
"""What follows an option: nothing, anything, one of some words, several with commas, ``name=…``, a path."""


@dataclass(frozen=True)
class Slot:
    """An option or a positional argument, and its possible values."""

    flags: tuple[str, ...]
    help: str
    values: Values
    words: tuple[str, ...] = ()
    many: bool = False
    """Whether it takes several words."""


@dataclass(frozen=True)
class Known:
    """A command with its options and positional arguments."""

    name: str
    help: str
    options: tuple[Slot, ...]
    places: tuple[Slot, ...]
    """Positional arguments, in order; the last one may take many words."""


def script(shell: str) -> str:
    """Returns the script for ``bash``, ``zsh`` or ``fish``."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](known_commands())


def known_commands() -> list[Known]:
    """Returns the parser's commands; the first, without a name, holds the options that precede a command."""
    parser = build_parser()
    found = [Known("", "", _slots(parser, options=True), ())]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, sub in action.choices.items():
                slots = _slots(sub, options=True), _slots(sub, options=False)
                found.append(Known(name, helps.get(name, ""), *slots))
    return found


def _slots(parser: argparse.ArgumentParser, *, options: bool) -> tuple[Slot, ...]:
    return tuple(
        _slot(parser, action)
        for action in parser._actions
        if bool(action.option_strings) == options and not isinstance(action, argparse._SubParsersAction)
        and action.help != argparse.SUPPRESS
    )  # fmt: skip


def _slot(parser: argparse.ArgumentParser, action: argparse.Action) -> Slot:
    values, words = _values(parser, action)
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    many = action.nargs in ("*", "+")
    return Slot(tuple(action.option_strings), " ".join(text.split()), values, words, many)


def _values(parser: argparse.ArgumentParser, action: argparse.Action) -> tuple[Values, tuple[str, ...]]:
    """Returns the possible values of an option or positional argument, as the parser declares them."""
    command = parser.prog.split()[-1]
    if action.nargs == 0:
        return "none", ()
    if action.choices is not None:
        return "words", tuple(str(choice) for choice in action.choices)
    by_name = _named(command, action.dest)
    if by_name is not None:
        return by_name
    if action.type in (Path, input_path):
        return ("folders" if action.metavar in ("DIR", "FOLDER") else "files"), ()
    return "any", ()


def _named(command: str, name: str) -> tuple[Values, tuple[str, ...]] | None:
    """What the parser does not say, since it would be long in coming for every start."""
    from tracetui.app.tabs import NAMES

    if name == "tab":
        return "words", NAMES
    if name == "section":
        from tracetui.analysis.report.report import SECTIONS

        return "words", tuple(SECTIONS)
    if name == "nsys_report":
        from tracetui.analysis.nsys.stats import REPORTS

        return "words", tuple(REPORTS)
    if name == "id":
        from tracetui.analysis.findings.catalogue import all_rules

        return "words", tuple(all_rules())
    if name == "model" or (command, name) == ("models", "name"):
        from tracetui.models.registry import entries

        return "words", tuple(entry.name for entry in entries() if ":" not in entry.name)
    if name == "tool":
        from tracetui.collectors.request import TOOLS

        return "list", (*TOOLS, "all")
    if name == "sweep":
        from tracetui.app.cli.options.profile import _AXES

        return "pairs", tuple(f"{axis}=" for axis in _AXES)
    if name == "sample":
        return "words", tuple(SAMPLES)
    if name == "asked":
        return "files", ()
    if name == "python":
        return "programs", ()
    if name == "device" and command in ("profile", "prove"):
        return "words", ("cpu", "cuda")
    if (command, name) == ("prove", "findings"):
        from tracetui.analysis.findings.catalogue import all_rules

        return "words", tuple(id for id, rule in all_rules().items() if rule.changes)
    return None


def _clean(text: str) -> str:
    """Removes from a help text the characters that a shell would interpret."""
    text = text.replace("'", "’").replace("[", "(").replace("]", ")")
    return "".join(character for character in text if character not in "'\"`$\\[]:\n").strip()


# --- bash


def _bash(commands: list[Known]) -> str:
    names = " ".join(command.name for command in commands if command.name)
    cases = "\n".join(_bash_command(command) for command in commands)
    switches = {flag for c in commands for option in c.options if option.values == "none" for flag in option.flags}
    script = _BASH.replace("@NAMES@", names).replace("@FLAGS@", " ".join(sorted(switches)))
    return script.replace("@CASES@", cases)


def _bash_command(command: Known) -> str:
    flags = " ".join(flag for option in command.options for flag in option.flags)
    lines = [f"    {command.name or chr(39) * 2})"]
    if any(option.values != "none" for option in command.options):
        lines.append("        case $option in")
        for option in command.options:
            if option.values != "none":
                lines.append(f"        {'|'.join(option.flags)}) {_bash_values(option)}; return ;;")
        lines.append("        esac")
    if many := [flag for option in command.options if option.many for flag in option.flags]:
        option = next(option for option in command.options if option.many)
        lines += [
            f'        if [[ $last == {many[0]} && $cur != -* ]]; then',
            f'            {_bash_values(option)}; _tracetui_files; return',
            "        fi",
        ]  # fmt: skip
    lines.append(f'        if [[ $cur == -* ]]; then _tracetui_words "{flags}"; return; fi')
    if command.places:
        lines.append("        case $place in")
        for number, place in enumerate(command.places):
            pattern = "*" if place.many else str(number)
            lines.append(f"        {pattern}) {_bash_values(place)} ;;")
        lines.append("        esac")
    elif not command.name:
        lines.append('        _tracetui_words "$names"')
    return "\n".join([*lines, "        ;;"])


def _bash_values(slot: Slot) -> str:
    words = " ".join(slot.words)
    return {
        "words": f'_tracetui_words "{words}"',
        "list": f'_tracetui_list "{words}"',
        "pairs": f'_tracetui_words "{words}"; compopt -o nospace 2>/dev/null',
        "files": "_tracetui_files",
        "folders": "_tracetui_files -d",
        "programs": "_tracetui_files -c; _tracetui_files",
    }.get(slot.values, ":")


_BASH = r"""# tracetui for bash: eval "$(tracetui completion bash)"
_tracetui_words() {
    COMPREPLY+=( $(compgen -W "$1" -- "$cur") )
}

_tracetui_list() {
    local before=
    [[ $cur == *,* ]] && before=${cur%,*},
    COMPREPLY+=( $(compgen -P "$before" -W "$1" -- "${cur##*,}") )
}

_tracetui_files() {
    local IFS=$'\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY+=( $(compgen "${1:--f}" -- "$cur") )
}

_tracetui() {
    local names="@NAMES@"
    local cur=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD-1]} command= last= place=0 i word
    COMPREPLY=()
    # bash takes --option=value for three words
    if [[ $cur == = ]]; then
        cur=
    elif [[ $option == = ]]; then
        option=${COMP_WORDS[COMP_CWORD-2]}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == -- ]]; then
            # a program of one's own: as it is completed elsewhere
            if declare -F _command_offset >/dev/null; then
                _command_offset $((i + 1))
            elif ((i + 1 == COMP_CWORD)); then
                _tracetui_files -c; _tracetui_files
            else
                _tracetui_files
            fi
            return
        elif [[ $word == -* ]]; then
            last=$word
        elif [[ $word == = || ${COMP_WORDS[i-1]} == = ]]; then
            continue
        elif [[ -z $command ]]; then
            command=$word
        elif [[ ${COMP_WORDS[i-1]} != -* || " @FLAGS@ " == *" ${COMP_WORDS[i-1]} "* ]]; then
            place=$((place + 1))
        fi
    done
    case $command in
@CASES@
    esac
}

complete -F _tracetui tracetui
"""


# --- zsh


def _zsh(commands: list[Known]) -> str:
    described = "\n".join(f"        '{c.name}:{_clean(c.help)}'" for c in commands if c.name)
    cases = "\n".join(_zsh_command(command) for command in commands if command.name)
    return _ZSH.replace("@COMMANDS@", described).replace("@CASES@", cases)


def _zsh_command(command: Known) -> str:
    lines = [f"        {command.name})", "            _arguments -s \\"]
    for option in command.options:
        value = "" if option.values == "none" else f":value:{_zsh_values(option)}"
        for flag in option.flags:
            lines.append(f"                '{'*' if option.many else ''}{flag}[{_clean(option.help)}]{value}' \\")
    for number, place in enumerate(command.places, 1):
        lines.append(
            f"                '{'*' if place.many else number}:{_clean(place.help)[:40]}:{_zsh_values(place)}' \\"
        )
    lines[-1] = lines[-1].removesuffix(" \\")
    return "\n".join([*lines, "            ;;"])


def _zsh_values(slot: Slot) -> str:
    return {
        "words": f"({' '.join(slot.words)})",
        "list": f"_values -s , value {' '.join(slot.words)}",
        "pairs": f'compadd -S "" {" ".join(slot.words)}',
        "files": "_files",
        "folders": "_files -/",
        "programs": "_command_names -e",
    }.get(slot.values, " ")


_ZSH = r"""#compdef tracetui
# tracetui for zsh: in a folder of $fpath as _tracetui, or: source <(tracetui completion zsh)

_tracetui() {
    local curcontext=$curcontext state at
    local -a known line
    known=(
@COMMANDS@
    )
    at=${words[(i)--]}
    if (( at < CURRENT )); then
        # a program of one's own: as it is completed elsewhere
        words=("${(@)words[at+1,-1]}")
        (( CURRENT -= at ))
        if (( CURRENT == 1 )); then _command_names -e; else _normal; fi
        return
    fi
    _arguments -C '--version[print the version]' '--help[show what there is]' '1:command:->command' '*::argument:->rest'
    case $state in
    command)
        _describe command known
        ;;
    rest)
        case $words[1] in
@CASES@
        esac
        ;;
    esac
}

if [[ $funcstack[1] == _tracetui ]]; then
    _tracetui "$@"
else
    compdef _tracetui tracetui
fi
"""


# --- fish


def _fish(commands: list[Known]) -> str:
    names = " ".join(command.name for command in commands if command.name)
    lines = [_FISH.replace("@NAMES@", names)]
    lines.append("complete -c tracetui -n '__tracetui_is \"\"' -l version -d 'print the version'")
    for command in commands:
        if not command.name:
            continue
        lines.append(f"complete -c tracetui -n '__tracetui_is \"\"' -a {command.name} -d '{_clean(command.help)}'")
        here = f"complete -c tracetui -n '__tracetui_is {command.name}'"
        for option in command.options:
            flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
            lines.append(f"{here} {flags}{_fish_values(option)} -d '{_clean(option.help)}'")
        for place in command.places:
            if place.values in ("files", "folders"):
                lines.append(f"{here} -F")
            elif place.words:
                lines.append(f"{here} -a '{' '.join(place.words)}'")
    return "\n".join(lines) + "\n"


def _fish_values(slot: Slot) -> str:
    return {
        "none": "",
        "words": f" -x -a '{' '.join(slot.words)}'",
        "list": f" -x -a '(__fish_append , {' '.join(slot.words)})'",
        "pairs": f" -x -a '{' '.join(slot.words)}'",
        "files": " -r -F",
        "folders": " -x -a '(__fish_complete_directories)'",
        "programs": " -r -F",
    }.get(slot.values, " -x")


_FISH = r"""# tracetui for fish: tracetui completion fish > ~/.config/fish/completions/tracetui.fish
function __tracetui_is --description 'whether this command is being typed, and no program of one\'s own'
    set -l words (commandline -opc)
    contains -- -- $words; and return 1
    set -l command ''
    for word in $words[2..-1]
        if contains -- $word @NAMES@
            set command $word
            break
        end
    end
    test "$command" = "$argv[1]"
end

function __tracetui_program --description 'completes a program of one\'s own'
    set -l words (commandline -opc)
    set -l at (contains -i -- -- $words)
    set -l rest $words[(math $at + 1)..-1]
    complete -C (string join ' ' -- (string escape -- $rest) (commandline -ct))
end

complete -c tracetui -f
complete -c tracetui -n 'contains -- -- (commandline -opc)' -a '(__tracetui_program)'
"""
