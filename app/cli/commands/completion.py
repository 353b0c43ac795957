"""`tracetui config completion`: makes the scripts that complete the command line in bash, zsh and fish.

They are made of the commands' declarations, so that the two agree, and stand alone: no Python is started while somebody
types. A tool of one's own after `--` is completed as the shell completes it elsewhere.
"""

from __future__ import annotations

import sys
from argparse import Action, ArgumentParser
from dataclasses import dataclass, replace
from pathlib import Path

from tracetui.app.cli.command import (
    COMMANDS,
    GROUP,
    HIDDEN,
    Argument,
    Values,
    build_parser,
    declared,
    fill,
    members,
    module_of,
    option,
)
from tracetui.app.cli.options import Bare
from tracetui.app.cli.values import input_path, path_or_url
from tracetui.app.text.exit_codes import DONE


@dataclass(kw_only=True)
class Options(Bare):
    """Print the script that completes `tracetui` in a shell. bash: eval "$(tracetui config completion bash)" in
    ~/.bashrc; zsh: tracetui config completion zsh > _tracetui in a folder of $fpath; fish: tracetui config completion
    fish > ~/.config/fish/completions/tracetui.fish
    """

    shell: str = option(choices=("bash", "zsh", "fish"))


def run(options: Options) -> int:
    """Prints the script."""
    sys.stdout.write(script(options.shell))
    return DONE


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
class Command:
    """A command with its options and positional arguments."""

    name: str
    help: str
    options: tuple[Slot, ...]
    places: tuple[Slot, ...]
    """Positional arguments, in order; the last one may take many words."""


NAMES = [name for name in COMMANDS if " " not in name]
PARTS = [name for name in COMMANDS if " " in name]
"""The commands of one word, and those of two."""


def script(shell: str) -> str:
    """Returns the script for ``bash``, ``zsh`` or ``fish``."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](known_commands())


def known_commands() -> list[Command]:
    """Returns the commands; the first, without a name, holds the options that precede a command."""
    top = tuple(_slot(action) for action in build_parser()._actions if action.option_strings)
    return [Command("", "", top, ()), *(_command(name, line) for name, line in COMMANDS.items())]


def _command(name: str, line: str) -> Command:
    parser = ArgumentParser()
    fill(parser, name)
    parts = tuple(members(name))
    arguments = {} if name == GROUP else dict(declared(module_of(name).Options))
    slots = [_slot(action, arguments.get(action.dest)) for action in parser._actions if action.help != HIDDEN]
    places = [slot for slot in slots if not slot.flags]
    if parts:
        places[0] = replace(places[0], help=places[0].help or "what to print", words=parts)
    return Command(name, line, tuple(slot for slot in slots if slot.flags), tuple(places))


def _slot(action: Action, argument: Argument | None = None) -> Slot:
    """Returns what is typed for an action of the parser, and what the declaration says of its values."""
    choices = tuple(map(str, action.choices or ()))
    text = (action.help or "") % {**vars(action), "choices": ", ".join(choices)}
    values: Values = "any"
    if action.nargs == 0:
        values = "none"
    elif argument is not None and argument.values is not None:
        values = argument.values
    elif choices:
        values = "words"
    elif action.type in (Path, input_path, path_or_url):
        values = "folders" if action.metavar in ("DIR", "FOLDER") else "files"
    words = tuple(argument.words()) if argument is not None else ()
    return Slot(tuple(action.option_strings), text, values, words or choices, action.nargs in ("*", "+"))


def _clean(text: str) -> str:
    """Removes from a help text the characters that a shell would interpret."""
    text = text.replace("'", "’").replace("[", "(").replace("]", ")")
    return "".join(character for character in text if character not in "'\"`$\\[]:\n").strip()


# --- bash


def _bash(commands: list[Command]) -> str:
    cases = "\n".join(_bash_command(command) for command in commands)
    switches = {flag for c in commands for slot in c.options if slot.values == "none" for flag in slot.flags}
    script = _BASH.replace("@NAMES@", " ".join(NAMES)).replace("@FLAGS@", " ".join(sorted(switches)))
    return script.replace("@PARTS@", ",".join(PARTS)).replace("@CASES@", cases)


def _bash_command(command: Command) -> str:
    flags = " ".join(flag for slot in command.options for flag in slot.flags)
    lines = [f"    '{command.name}')"]
    if any(slot.values != "none" for slot in command.options):
        lines.append("        case $option in")
        for slot in command.options:
            if slot.values != "none":
                lines.append(f"        {'|'.join(slot.flags)}) {_bash_values(slot)}; return ;;")
        lines.append("        esac")
    if many := [flag for slot in command.options if slot.many for flag in slot.flags]:
        slot = next(slot for slot in command.options if slot.many)
        lines += [
            f'        if [[ $last == {many[0]} && $cur != -* ]]; then',
            f'            {_bash_values(slot)}; _tracetui_files; return',
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
    more = f'_tracetui_words "{words}"; ' if words else ""
    return {
        "words": f'_tracetui_words "{words}"',
        "list": f'_tracetui_list "{words}"',
        "pairs": f'_tracetui_words "{words}"; compopt -o nospace 2>/dev/null',
        "files": f"{more}_tracetui_files",
        "folders": "_tracetui_files -d",
        "programs": "_tracetui_files -c; _tracetui_files",
    }.get(slot.values, ":")


_BASH = r"""# tracetui for bash: eval "$(tracetui config completion bash)"
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
    local names="@NAMES@" parts=",@PARTS@,"
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
        elif [[ $place == 0 && $parts == *",$command $word,"* ]]; then
            command+=" $word"
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


def _zsh(commands: list[Command]) -> str:
    described = "\n".join(f"        '{c.name}:{_clean(c.help)}'" for c in commands if c.name in NAMES)
    cases = "\n".join(_zsh_command(command) for command in commands if command.name)
    script = _ZSH.replace("@COMMANDS@", described).replace("@PARTS@", ",".join(PARTS))
    return script.replace("@CASES@", cases)


def _zsh_command(command: Command) -> str:
    lines = [f"        '{command.name}')", "            _arguments -s \\"]
    for slot in command.options:
        value = "" if slot.values == "none" else f":value:{_zsh_values(slot)}"
        for flag in slot.flags:
            lines.append(f"                '{'*' if slot.many else ''}{flag}[{_clean(slot.help)}]{value}' \\")
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
        "files": f"{{compadd -- {' '.join(slot.words)}; _files}}" if slot.words else "_files",
        "folders": "_files -/",
        "programs": "_command_names -e",
    }.get(slot.values, " ")


_ZSH = r"""#compdef tracetui
# tracetui for zsh: in a folder of $fpath as _tracetui, or: source <(tracetui config completion zsh)

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
        if (( CURRENT > 2 )) && [[ ",@PARTS@," == *",$words[1] $words[2],"* ]]; then
            words=("$words[1] $words[2]" "${(@)words[3,-1]}")
            (( CURRENT -= 1 ))
        fi
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


def _fish(commands: list[Command]) -> str:
    parts = " ".join(f"'{name}'" for name in PARTS)
    lines = [_FISH.replace("@NAMES@", " ".join(NAMES)).replace("@PARTS@", parts)]
    lines.append("complete -c tracetui -n '__tracetui_is \"\"' -l version -d 'print the version'")
    for command in commands:
        if not command.name:
            continue
        if command.name in NAMES:
            lines.append(f"complete -c tracetui -n '__tracetui_is \"\"' -a {command.name} -d '{_clean(command.help)}'")
        here = f"complete -c tracetui -n '__tracetui_is {command.name}'"
        for slot in command.options:
            flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in slot.flags)
            lines.append(f"{here} {flags}{_fish_values(slot)} -d '{_clean(slot.help)}'")
        for place in command.places:
            if place.values in ("files", "folders"):
                lines.append(f"{here} -F")
            if place.words:
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


_FISH = r"""# tracetui for fish: tracetui config completion fish > ~/.config/fish/completions/tracetui.fish
function __tracetui_is --description 'whether this command is being typed, and no program of one\'s own'
    set -l words (commandline -opc)
    contains -- -- $words; and return 1
    set -l command ''
    for word in $words[2..-1]
        if test -z "$command"
            contains -- $word @NAMES@; and set command $word
        else
            contains -- "$command $word" @PARTS@; and set command "$command $word"
            string match -q -- '-*' $word; or break
        end
    end
    test "$command" = "$argv"
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
