"""What `tracetui reference skill` tells agents is short, and true of the program."""

from __future__ import annotations

import re
import shlex

from tracetui.analysis.schemas.others import json_schema
from tracetui.app.cli.command import build_parser, chosen
from tracetui.app.cli.commands.completion import known_commands
from tracetui.app.cli.commands.reference.skill import MOST_BYTES, skill
from tracetui.app.cli.main import main


def test_it_is_short_and_names_every_command(capsys) -> None:
    assert main(["reference", "skill"]) == 0
    page = capsys.readouterr().out
    assert page == skill()
    assert len(page.encode()) < MOST_BYTES
    for command in known_commands():
        if command.name:
            assert f"- `{command.name}`: {command.help}" in page


def test_its_commands_parse() -> None:
    examples = [words for words in re.findall(r"`tracetui ([^`]*)`", skill()) if " " in words]
    assert len(examples) >= 8
    for words in examples:
        command = shlex.split(words.replace("…", "1"))
        if "--" in command:
            command = command[: command.index("--")]
        name, command = chosen(command)
        build_parser(name).parse_args(command)


def test_the_keys_that_it_names_are_there() -> None:
    schemas = (
        str(json_schema("report")) + str(json_schema("diff")) + str(json_schema("ranks")) + str(json_schema("check"))
    )
    for name in re.findall(r"`([a-z][a-z_.]+)`", skill()):
        for key in name.removeprefix("trace.").removeprefix("run.").split("."):
            if key not in ("tracetui", "other_work", "not_comparable", "invalid", "light", "rich", "both", "clean",
                           "recorded", "trace", "host", "device", "start", "duration", "done",
                           ) and key not in {c.name for c in known_commands()}:  # fmt: skip
                assert f"'{key}'" in schemas, key
