"""Completion in the shells, as the shells do it."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest

from tracetui.app.cli.commands.completion import known_commands, script
from tracetui.app.cli.main import main

COMPLETE = """
{script}
COMP_WORDS=({words})
COMP_CWORD={at}
_tracetui
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def bash(line: str, cwd=None) -> list[str]:
    """What bash offers at the end of a line; a ``=`` is a word of its own there."""
    words = shlex.split(line)
    words = [part for word in words for part in (word.replace("=", " = ").split() if word.startswith("--") else [word])]
    words += [""] if line.endswith(" ") else []
    code = COMPLETE.format(script=script("bash"), words=" ".join(map(shlex.quote, words)), at=len(words) - 1)
    done = subprocess.run(
        ["bash", "--norc", "-c", code], capture_output=True, text=True, check=True, cwd=cwd, timeout=30
    )
    assert not done.stderr
    return [word for word in done.stdout.split("\n") if word]


def fish(line: str, cwd=None) -> list[str]:
    code = f"{script('fish')}\ncomplete -C {shlex.quote(line)}"
    done = subprocess.run(["fish", "--no-config", "-c", code], capture_output=True, text=True, check=True, cwd=cwd)
    return [word.split("\t")[0] for word in done.stdout.split("\n") if word]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run one.json").write_text("{}")
    (tmp_path / "runs").mkdir()
    return tmp_path


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
needs_fish = pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
SHELLS = [pytest.param(bash, marks=needs_bash), pytest.param(fish, marks=needs_fish)]


@pytest.mark.parametrize("offered", SHELLS)
@pytest.mark.parametrize(
    ("line", "wanted", "unwanted"),
    [
        ("tracetui ", {"open", "report", "profile", "config", "serve"}, {"vim_tiny"}),
        ("tracetui rep", {"report"}, {"open"}),
        ("tracetui open --the", {"--theme"}, {"--tab"}),
        ("tracetui open --theme ", {"light", "high-contrast"}, {"never"}),
        ("tracetui open --tab k", {"kernels"}, {"overview"}),
        ("tracetui report x.json --section over", {"overview"}, {"kernels"}),
        ("tracetui report --format ", {"json", "csv"}, {"light"}),
        ("tracetui reference models vim", {"vim_tiny", "vim_small"}, {"gpt_small"}),
        ("tracetui profile vim_t", {"vim_tiny"}, set()),
        ("tracetui profile vim_tiny --dtype ", {"fp16", "bf16"}, {"vim_tiny"}),
        ("tracetui reference rules S", {"S1", "S2"}, {"K1"}),
        ("tracetui config completion ", {"bash", "zsh", "fish"}, set()),
        ("tracetui config cache ", {"info", "clear"}, set()),
        ("tracetui ", {"reference", "config"}, {"rules", "models", "schema", "skill", "completion", "cache"}),
        ("tracetui reference ", {"rules", "models", "schema", "skill"}, {"cache", "S1"}),
        ("tracetui reference schema ", {"report", "diff"}, {"rules.md"}),
        ("tracetui config c", {"completion", "cache"}, {"clear"}),
        ("tracetui config cache cl", {"clear"}, {"info", "cache"}),
        ("tracetui profile --tool torch,n", {"torch,nsys", "torch,ncu"}, {"nsys"}),
    ],
)
def test_what_is_offered(offered, line, wanted, unwanted) -> None:
    found = set(offered(line))
    assert wanted <= found
    assert not unwanted & found


@pytest.mark.parametrize("offered", SHELLS)
@pytest.mark.parametrize("line", ["tracetui open r", "tracetui diff a.json r", "tracetui report --output r"])
def test_paths_where_a_path_is_meant(offered, line, folder) -> None:
    found = [name.rstrip("/").replace("\\ ", " ") for name in offered(line, cwd=folder)]
    assert {"run one.json", "runs"} <= set(found)


@needs_bash
def test_bash_knows_a_value_after_an_equals_sign() -> None:
    assert bash("tracetui open --theme=li") == ["light"]
    assert "dark" in bash("tracetui open --theme=")


@needs_bash
def test_bash_goes_on_with_several_sections_and_paths(folder) -> None:
    found = bash("tracetui report --section overview k", cwd=folder)
    assert "kernels" in found
    assert "run one.json" in bash("tracetui report --section overview r", cwd=folder)


@pytest.mark.parametrize("offered", SHELLS)
def test_a_program_of_ones_own_is_completed_as_elsewhere(offered, folder) -> None:
    assert "python3" in offered("tracetui profile -- pytho")
    found = [name.rstrip("/").replace("\\ ", " ") for name in offered("tracetui profile -- python3 r", cwd=folder)]
    assert "runs" in found
    assert not set(offered("tracetui profile -- python3 --", cwd=folder)) & {"--theme", "--dtype"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_whole(shell, tmp_path, capsys) -> None:
    assert main(["config", "completion", shell]) == 0
    printed = capsys.readouterr().out
    assert printed == script(shell)
    for command in known_commands():
        assert command.name in printed
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here to read it")
    file = tmp_path / "script"
    file.write_text(printed)
    check = "--no-execute" if shell == "fish" else "-n"
    assert subprocess.run([shell, check, str(file)], capture_output=True, check=False).stderr == b""


def test_every_option_that_a_person_sees_is_known() -> None:
    options = {flag for command in known_commands() for option in command.options for flag in option.flags}
    assert {"--sample", "--steps", "--no-mouse", "--low-bandwidth", "--no-low-bandwidth", "--keys"} <= options
    assert "--no-ascii" not in options
