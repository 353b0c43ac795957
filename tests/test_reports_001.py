"""Every command of docs/report.md on report 001 prints what the page shows."""

import re
from pathlib import Path

import pytest
from sample_runs import DATA

from tracetui.app.cli.main import main

PAGE = Path(__file__).resolve().parents[1] / "docs" / "report.md"
SECTION = re.compile(r"^## 001: .*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)
EXAMPLE = re.compile(r"```console\n\$ tracetui ([^\n]+)\n(.*?)```", re.DOTALL)


def examples() -> list[tuple[str, str]]:
    section = SECTION.search(PAGE.read_text(encoding="utf-8"))
    assert section is not None
    return EXAMPLE.findall(section[0])


@pytest.fixture(scope="module")
def printed() -> dict[str, list[str]]:
    """What each command printed, so that no command runs twice."""
    return {}


@pytest.mark.parametrize(("command", "shown"), examples())
def test_the_page_shows_what_is_printed(command, shown, printed, capsys) -> None:
    if command not in printed:
        words = [word.replace("tests/data", str(DATA)) for word in command.split()]
        assert main([*words, "--no-cache"]) == 0
        printed[command] = capsys.readouterr().out.splitlines()
    at = 0
    for line in shown.splitlines():  # lines may be left out, but stand in their order
        if line:
            assert line in printed[command][at:]
            at += printed[command][at:].index(line) + 1
    assert at


def test_the_page_has_examples_of_every_command() -> None:
    commands = {command.split()[0] for command, _ in examples()}
    assert commands == {"sweep", "diff", "report"}
