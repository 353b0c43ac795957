"""`tracetui reference models`: the list, one model, JSON, another Python, and what is not imported for it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tracetui.app.cli import main as cli
from tracetui.app.cli.commands.reference import models as models_list
from tracetui.app.text.exit_codes import DONE, USAGE
from tracetui.models.registry import entries

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        models_list, "_installed", lambda python: ("3.11.7", {need.name: None for need in models_list.PACKAGES})
    )


@pytest.fixture
def all_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        models_list, "_installed", lambda python: ("3.8.10", {need.name: "9.9" for need in models_list.PACKAGES})
    )


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(["reference", "models", *arguments]) == DONE
    return capsys.readouterr().out


def test_the_list(capsys: pytest.CaptureFixture[str], nothing_installed: None) -> None:
    lines = printed(capsys).splitlines()
    rows = {line.split()[0]: line for line in lines if line.startswith("  ")}
    assert {entry.name for entry in entries()} <= set(rows)
    assert " ".join(rows["vim_tiny"].split()) == "vim_tiny 7.148 M 12.07 G 4 × 224 px torch*, mamba-ssm*"
    assert " ".join(rows["topk_deit_base"].split()) == "topk_deit_base 86.57 M 44.42 G 4 × 224 px, keep 0.1 torch*"
    assert " ".join(rows["gpt_2.7B"].split()) == "gpt_2.7B 2.568 G 5.292 T 4 × 256 tokens torch*"
    assert "    python -m pip install torch" in lines
    assert all(len(line) <= 80 for line in lines if not line.startswith("    python"))


def test_what_is_there_is_named_with_its_version(capsys: pytest.CaptureFixture[str], all_installed: None) -> None:
    text = printed(capsys, "--python", "/opt/board/python3")
    assert "What they need, in Python 3.8.10 (/opt/board/python3)" in text
    assert "torch      9.9" in text
    assert "*" not in text.split("needs (* missing)")[1]
    assert "pip install" not in text


def test_one_model(capsys: pytest.CaptureFixture[str], nothing_installed: None) -> None:
    text = printed(capsys, "topk_deit_tiny", "--ascii")
    assert text.isascii()
    assert "5.717 M parameters; the forward pass of 4 x 224 px, keep 0.1 takes 3.311 GFLOP and" in " ".join(
        text.split()
    )
    assert "  --reduction-loc  3,6,9     blocks, counted from 0" in text
    assert "  --train          no        forward, backward" in text
    assert "--ctx" not in text
    assert "counted when it is built" in printed(capsys, "timm:resnet18")
    assert "your own: net:make" in printed(capsys, "net:make")


def test_an_unknown_model_is_one_line(capsys: pytest.CaptureFixture[str], nothing_installed: None) -> None:
    assert cli.main(["reference", "models", "vimtiny"]) == USAGE
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith("tracetui: no model 'vimtiny' (did you mean vim_tiny")
    assert found.err.count("\n") == 1


def test_json(capsys: pytest.CaptureFixture[str], nothing_installed: None) -> None:
    found = json.loads(printed(capsys, "--format", "json"))
    assert found["schema"] == "tracetui.models/1"
    models = {model["name"]: model for model in found["models"]}
    assert list(models) == [entry.name for entry in entries()]
    deit = models["topk_deit_base"]
    assert deit["parameters"] == 86_567_656
    assert deit["flops_per_step"] == 4 * 2 * 5_552_071_680
    assert deit["defaults"]["reduction_loc"] == [3, 6, 9]
    vim = models["vim_tiny"]
    assert [(need["name"], need["optional"], need["installed"]) for need in vim["needs"]] == [
        ("torch", False, False),
        ("mamba-ssm", True, False),
        ("pillow", True, False),
    ]
    assert "--no-deps --no-build-isolation --no-cache-dir" in vim["needs"][1]["install"]
    assert not vim["ready"]


def test_ready_where_only_what_is_optional_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {"torch": "2.13.0", "mamba-ssm": None, "timm": None, "pillow": None}
    monkeypatch.setattr(models_list, "_installed", lambda python: ("3.11.7", there))
    assert json.loads(printed(capsys, "vim_tiny", "--format", "json"))["models"][0]["ready"]
    assert not json.loads(printed(capsys, "timm:resnet18", "--format", "json"))["models"][0]["ready"]


def test_the_python_is_asked_and_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('torch was imported')\n")
    metadata = tmp_path / "torch-2.1.0a0+41361538.nv23.6.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.1.0a0+41361538.nv23.6\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ncd "{tmp_path}" && exec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    version, found = models_list._installed(str(python))
    assert version == "{}.{}.{}".format(*sys.version_info[:3])
    assert found == {"torch": "2.1.0a0+41361538.nv23.6", "mamba-ssm": None, "timm": None, "pillow": None}


@pytest.mark.parametrize(
    ("script", "words"),
    [(None, "No such file or directory"), ("exit 3", "exit code 3"), ("echo no json", "does not answer as Python")],
)
def test_a_python_that_cannot_be_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], script: str | None, words: str
) -> None:
    python = tmp_path / "python"
    if script is not None:
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
    assert cli.main(["reference", "models", "--python", str(python)]) == USAGE
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_nothing_heavy_is_imported() -> None:
    script = (
        "import sys; from tracetui.app.cli.main import main\n"
        "main(['reference', 'models'])\n"
        "print(sorted({'torch', 'timm', 'PIL', 'polars', 'numpy', 'textual', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "[]"
