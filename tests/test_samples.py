"""The samples ship with the package, and open."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from importlib.resources import files
from pathlib import Path

import pytest

from tracetui.app.arguments import SAMPLES
from tracetui.parsers import open_path

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("name", SAMPLES)
def test_each_sample_opens_without_loss(name: str) -> None:
    run = open_path(str(files("tracetui.samples") / SAMPLES[name]), cache=False)
    (trace,) = run.traces
    assert trace.device.height > 1000
    assert trace.source.events_parsed == trace.source.events_total
    assert not [note for note in trace.notes if note.kind == "skipped"]


def test_the_readme_names_every_sample() -> None:
    readme = (ROOT / "samples" / "README.md").read_text(encoding="utf-8")
    there = {path.name for path in (ROOT / "samples").glob("*.json.gz")}
    assert there == set(SAMPLES.values())
    for name, file in SAMPLES.items():
        assert f"`{name}`" in readme
        assert f"`{file}`" in readme


def test_the_readmes_set_up_is_what_ci_runs() -> None:
    commands = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("python3 -m venv")]
    assert len(commands) == 2
    assert commands[0].endswith("tracetui open --sample")
    assert commands[1].endswith("-m pytest -n auto")
    assert "sed -n 2p" in (ROOT / ".ci" / "run").read_text()


def test_the_wheel_holds_samples_styles_and_markers(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    # a copy, since building leaves traces in its source folder
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for folder in ("analysis", "app", "collectors", "models", "parsers", "samples"):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(source)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[0] for name in held if ".dist-info/" not in name} == {"tracetui"}
    expected = {f"tracetui/samples/{file}" for file in SAMPLES.values()}
    expected |= {f"tracetui/{floor}/py.typed" for floor in ("analysis", "app", "collectors", "models", "parsers")}
    expected |= {f"tracetui/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "app").rglob("*.tcss")}
    assert expected <= held
