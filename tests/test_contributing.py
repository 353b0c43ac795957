"""The examples of CONTRIBUTING.md: each is applied to a copy of the program as it is printed, and shows its effect.

They share the copy, in which each module is compiled once; each example is taken out again.
"""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("pyte")
from pyte_screen import Terminal

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("analysis", "app", "collectors", "models", "parsers")
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`([\w./]+\.(?:py|toml))`")
SECTIONS = {
    title: text
    for title, _, text in (
        section.partition("\n")
        for section in re.split(r"^## ", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    )
    if "```text" in text
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the program in which files can be changed, and a command `tracetui` that runs it."""
    place = tmp_path_factory.mktemp("contributing") / "copy"
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, place / "tracetui" / folder)
    (place / "tracetui" / "samples").symlink_to(ROOT / "samples")
    shutil.copy(ROOT / "pyproject.toml", place / "tracetui")
    command = place / "bin" / "tracetui"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tracetui.app "$@"\n')
    command.chmod(0o755)
    return place


def applied(text: str, tree: Path, names: list[str]) -> tuple[str, str]:
    """Applies the blocks of a section to a copy; returns its command and what the command's output holds.

    Args:
        text: the section.
        tree: the copy.
        names: the files that are changed or made are added.
    """
    command = shown = ""
    for block in BLOCK.finditer(text):
        kind, content = block[2], textwrap.dedent(block[3]) if block[1] else block[3]
        if kind == "sh":
            command = content
        elif kind == "text":
            shown = content
        else:
            name = FILE.findall(text[: block.start()])[-1]
            names.append(name)
            file = tree / "tracetui" / name
            file.parent.mkdir(exist_ok=True)
            before = file.read_text(encoding="utf-8") if file.exists() else ""
            file.write_text(_changed(before, content, name) if kind == "diff" else before + content, encoding="utf-8")
    return command, shown


def restored(tree: Path, name: str) -> None:
    """Makes a file of the copy what it was."""
    file, original = tree / "tracetui" / name, ROOT / name
    if original.exists():
        shutil.copy2(original, file)
    elif original.parent.exists():
        file.unlink(missing_ok=True)
    else:
        shutil.rmtree(file.parent, ignore_errors=True)


def _changed(text: str, change: str, name: str) -> str:
    """A file's text with the lines of a block marked `diff`, which stand at one place of it."""
    lines = change.splitlines(keepends=True)
    old = "".join(line[1:] for line in lines if line[0] != "+")
    assert text.count(old) == 1, f"{name} has {text.count(old)} times:\n{old}"
    return text.replace(old, "".join(line[1:] for line in lines if line[0] != "-"))


def test_the_examples_are_found() -> None:
    assert [title.partition(":")[0] for title in SECTIONS] == [
        "A column of the kernel table",
        "A key of the report",
        "A rule",
        "A measure in sweeps",
        "A tab",
        "A parser of a new tool",
        "A chart",
        "A command",
    ]


@pytest.mark.parametrize("title", SECTIONS)
def test_an_example_does_what_is_printed_below_it(title: str, tree: Path) -> None:
    names: list[str] = []
    try:
        shows(tree, *applied(SECTIONS[title], tree, names))
    finally:
        for name in names:
            restored(tree, name)


def shows(tree: Path, command: str, shown: str) -> None:
    """Fails unless the command prints these lines."""
    environment = {
        "PATH": f"{tree / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(tree),
    }
    if "open " not in command:
        done = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, check=False, timeout=120, cwd=tree.parent,
            env=os.environ | environment,
        )  # fmt: skip
        assert [line for line in shown.splitlines() if line not in done.stdout] == [], done.stdout + done.stderr
        return
    screen = Terminal(command=("sh", "-c", command), size=(100, 30), cwd=tree.parent, **environment)
    try:
        for line in shown.splitlines():
            screen.until(line)
    finally:
        screen.close()
