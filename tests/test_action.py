"""The steps of action.yml, run as a runner runs them."""

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from sample_runs import VIM, VIM_FP16

ROOT = Path(__file__).resolve().parents[1]


def steps() -> dict[str, tuple[set[str], str]]:
    """By name: the variables that a step is given, and its shell."""
    found = {}
    for part in (ROOT / "action.yml").read_text(encoding="utf-8").split("    - name: ")[1:]:
        settings, shell = part.split("      run: |\n")
        found[part.split("\n")[0]] = (set(re.findall(r"^ {8}(\w+): \$", settings, re.MULTILINE)), dedent(shell))
    return found


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    bin_ = tmp_path / "tracetui" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "tracetui").symlink_to(Path(sys.executable).parent / "tracetui")
    gh = tmp_path / "gh"
    gh.write_text('#!/bin/sh\necho "$@" > "$RUNNER_TEMP/asked"\ncat "${9:-$8}" > "$RUNNER_TEMP/posted"\n')
    gh.chmod(0o755)
    return tmp_path


def run(runner: Path, name: str, **given: str) -> subprocess.CompletedProcess[str]:
    takes, shell = steps()[name]
    assert set(given) == takes
    places = {"RUNNER_TEMP": runner, "GITHUB_STEP_SUMMARY": runner / "summary", "GITHUB_OUTPUT": runner / "output"}
    path = f"{runner}:{os.environ['PATH']}"
    environment = {**os.environ, **given, **{key: str(at) for key, at in places.items()}, "PATH": path}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", shell]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_diff_is_summed_up_commented_and_judged(runner: Path) -> None:
    done = run(runner, "Compare", A=str(VIM), B=str(VIM_FP16), FAIL_ON="regression:5%", LIMIT="2")
    assert done.returncode == 0, done.stderr
    assert "# tracetui diff: what changed" in (runner / "summary").read_text()
    assert (runner / "output").read_text() == "code=0\n"
    assert run(runner, "Comment", GH_TOKEN="t", REPOSITORY="o/r", NUMBER="7").returncode == 0
    assert (runner / "asked").read_text().startswith("pr comment 7 --repo o/r")
    assert (runner / "posted").read_text() == (runner / "summary").read_text()
    assert [run(runner, "Judge", CODE=code).returncode for code in "0134"] == [0, 1, 3, 0]


def test_what_could_not_be_judged_or_read_is_said(runner: Path) -> None:
    run(runner, "Compare", A=str(VIM_FP16), B=str(VIM), FAIL_ON="regression:1%", LIMIT="2")
    assert (runner / "output").read_text() == "code=4\n"
    assert (runner / "summary").read_text().startswith("```text\ntracetui: not judged: ")
    assert "::warning::--fail-on could not be judged: tracetui: not judged" in run(runner, "Judge", CODE="4").stdout
    run(runner, "Compare", A=str(runner / "absent"), B=str(VIM), FAIL_ON="", LIMIT="2")
    assert (runner / "output").read_text() == "code=4\ncode=1\n"
    assert "no such file" in (runner / "summary").read_text()


def test_the_steps_hold_no_expression_that_a_name_could_fill() -> None:
    assert set(steps()) == {"Install", "Compare", "Comment", "Judge"}
    assert not [name for name, (_, shell) in steps().items() if "${{" in shell]
