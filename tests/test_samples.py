"""The samples ship with the package, and open."""

import gzip
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tracetui.analysis.matching.join import run_joins
from tracetui.app.cli.options import SAMPLES
from tracetui.parsers import open_path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("analysis", "app", "collectors", "models", "parsers", "samples")


def runs_of(name: str) -> list[Path]:
    folder = ROOT / "samples" / SAMPLES[name]
    return sorted(path.parent for path in folder.rglob("run.json"))


@pytest.mark.parametrize("name", SAMPLES)
def test_each_sample_opens_without_loss(name: str) -> None:
    assert runs_of(name)
    for folder in runs_of(name):
        run = open_path(folder, cache=False)
        assert run.manifest is not None
        assert run.manifest.status == "finished"
        assert run.manifest.notes == ()
        assert run.main.device.height > 300
        for trace in run.traces:
            assert trace.source.events_parsed == trace.source.events_total
            assert not [note for note in trace.notes if note.kind == "skipped"]


def test_the_first_sample_is_one_run_of_all_tools() -> None:
    run = open_path(ROOT / "samples" / SAMPLES["vim_tiny"], cache=False)
    kinds = [trace.info.kind for trace in run.traces]
    assert kinds == ["chrome", "nsys", "ncu", "memory_snapshot"]  # both pages of Nsight Compute's report are one
    joins = {found.other.info.kind: found.join for found in run_joins(run) if found.main is run.main}
    assert set(joins) == {"nsys", "ncu"}
    for join in joins.values():
        assert join.launches.height > 50
        assert join.count("matched") == join.launches.height


def test_the_readme_names_every_sample() -> None:
    readme = (ROOT / "samples" / "README.md").read_text(encoding="utf-8")
    there = {path.name for path in (ROOT / "samples").iterdir() if (path.is_dir() and path.name != "__pycache__")}
    assert there == set(SAMPLES.values())
    for name in SAMPLES:
        assert f"`{name}`" in readme


def test_no_sample_tells_of_its_machine() -> None:
    for path in (ROOT / "samples").rglob("*"):
        if path.is_file() and path.suffix not in (".py", ".pyc", ".md"):
            content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            assert not re.search(rb"/(tmp|root|home)/", content), path


def test_the_readmes_set_up_is_what_ci_runs() -> None:
    commands = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("python3 -m venv")]
    assert len(commands) == 2
    assert commands[0].endswith("tracetui open --sample")
    assert commands[1].endswith("-m pytest -n auto")
    assert "sed -n 2p" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize(("tag", "code"), [("v{}", 0), ("{}", 2), ("v{}rc1", 2), ("", 2)])
def test_a_releases_tag_is_the_version(tag: str, code: int) -> None:
    asked = f"TAG={tag.format(version('tracetui'))}" if tag else "TAG="
    done = subprocess.run(["make", "-s", "tag", asked], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert ("pyproject.toml says v" in done.stderr) == bool(code)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as it would be published."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    # a copy, since building leaves traces in its source folder
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    (source / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "tracetui.1", source / "docs")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_holds_all_modules_samples_styles_and_markers(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    data = f"{wheel.name.removesuffix('-py3-none-any.whl')}.data"
    assert {name.split("/")[0] for name in held if ".dist-info/" not in name} == {"tracetui", data}
    assert f"{data}/data/share/man/man1/tracetui.1" in held
    expected = {
        f"tracetui/{path.relative_to(ROOT).as_posix()}"
        for folder in SAMPLES.values()
        for path in (ROOT / "samples" / folder).rglob("*")
        if path.is_file()
    }
    expected |= {f"tracetui/{floor}/py.typed" for floor in ("analysis", "app", "collectors", "models", "parsers")}
    for folder in FOLDERS:
        for pattern in ("*.py", "*.tcss", "*.toml"):
            expected |= {f"tracetui/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / folder).rglob(pattern)}
    assert expected <= held


def test_the_installed_wheel_runs(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "site"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
        "--target",
        str(place),
        str(wheel),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    environment = {**os.environ, "PYTHONPATH": str(place)}
    script = [sys.executable, str(place / "bin" / "tracetui"), "report", "--sample", "--section", "overview"]
    ran = subprocess.run(script, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert "The step: " in ran.stdout
    where = [sys.executable, "-c", "import tracetui.app.cli.main as main; print(main.__file__)"]
    told = subprocess.run(where, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
    assert told.stdout.startswith(str(place)), "the checkout was run, not the wheel"
