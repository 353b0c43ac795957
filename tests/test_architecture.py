"""The house's rules: floors, the list of packages, and what opening a trace must not import."""

from __future__ import annotations

import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("analysis", "app", "collectors", "models", "parsers", "samples")
SAMPLE = ROOT / "tests" / "data" / "vim_tiny_fp32_bs4.pt.trace.json.gz"
HEAVY = ("torch", "pandas", "pyarrow", "textual")


def python(script: str, *arguments: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_no_floor_imports_from_above() -> None:
    out = python("from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-logo", "--no-cache")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert f"{len(settings['tool']['importlinter']['contracts'])} kept, 0 broken" in out


@pytest.mark.parametrize("folder", ["app"])
def test_no_module_imports_itself_through_others(folder: str) -> None:
    """Imports that only type checkers see count as all others do."""
    graph = grimp.build_graph(f"tracetui.{folder}", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 5
    # raises CycleError, which names the modules of one circle
    TopologicalSorter(imports).prepare()


def test_the_package_list_names_every_folder() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    there = {
        init.parent.relative_to(ROOT).as_posix() for folder in FOLDERS for init in (ROOT / folder).rglob("__init__.py")
    }
    with_code = {
        code.parent.relative_to(ROOT).as_posix() for folder in FOLDERS for code in (ROOT / folder).rglob("*.py")
    }
    assert with_code == there, "a folder with code has no __init__.py"
    assert {f"tracetui.{folder.replace('/', '.')}": folder for folder in there} == setuptools["package-dir"]
    assert sorted(setuptools["package-dir"]) == sorted(setuptools["packages"])


def test_every_floor_is_typed() -> None:
    for folder in ("analysis", "app", "collectors", "models", "parsers"):
        assert (ROOT / folder / "py.typed").is_file()


def test_opening_a_trace_and_reporting_it_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from tracetui.parsers import open_path\n"
        "from tracetui.analysis.report.report import report\n"
        "from laid_out import report_text\n"
        "print(len(report_text(report(open_path(sys.argv[1], cache=False)))) > 1000)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert python(script, str(SAMPLE)).splitlines() == ["True", "[]"]


@pytest.mark.parametrize("floor", ["parsers", "analysis"])
def test_the_lower_floors_need_no_screen(floor: str) -> None:
    script = (
        "import importlib, pathlib, sys\n"
        f"for code in sorted(pathlib.Path({floor!r}).rglob('*.py')):\n"
        "    module = '.'.join(code.with_suffix('').parts).removesuffix('.__init__')\n"
        "    importlib.import_module('tracetui.' + module)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert python(script) == "[]"


def test_one_section_imports_only_its_own_analysis() -> None:
    script = (
        "import sys\n"
        "from tracetui.app.cli.main import main\n"
        "main(['report', sys.argv[1], '--section', 'overview', '--no-cache', '--output', '/dev/null'])\n"
        "others = ['kernels', 'operators', 'modules', 'host', 'api', 'ranges', 'memops', 'diff', 'ranks']\n"
        "print([name for name in others if 'tracetui.analysis.' + name in sys.modules])"
    )
    assert python(script, str(SAMPLE)) == "[]"


def test_the_shell_is_painted_before_polars_is_imported() -> None:
    script = (
        "import pathlib, sys\n"
        "from tracetui.app.screen.tui import TracetuiApp\n"
        # what is called after the first paint, to load the trace
        "TracetuiApp.start = lambda app: app.exit()\n"
        "TracetuiApp([pathlib.Path(sys.argv[1])]).run(headless=True)\n"
        "print([name for name in ('polars', 'numpy') if name in sys.modules])"
    )
    assert python(script, str(SAMPLE)).splitlines()[-1] == "[]"
