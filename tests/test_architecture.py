"""The house's rules: floors, the list of packages, and what opening a trace must not import."""

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

import tracetui.parsers

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("analysis", "app", "collectors", "models", "parsers", "samples")
SAMPLE = ROOT / "tests" / "data" / "vim_tiny_fp32_bs4.pt.trace.json.gz"
HEAVY = ("torch", "pandas", "pyarrow", "textual", "duckdb", "mcp", "jsonschema")


def python(script: str, *arguments: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_no_layer_imports_from_above() -> None:
    out = python("from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-logo", "--no-cache")
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    assert "0 broken" in out
    assert f"{len(contracts)} kept" in out
    assert not any("exclude_type_checking_imports" in contract for contract in contracts)


@pytest.mark.parametrize("folder", FOLDERS[:-1])
def test_no_module_imports_itself_through_others(folder: str) -> None:
    """Imports that only type checkers see count as all others do."""
    graph = grimp.build_graph(f"tracetui.{folder}", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 5
    # raises CycleError, which names the modules of one circle
    TopologicalSorter(imports).prepare()


def test_every_folder_with_code_is_a_package() -> None:
    for folder in FOLDERS:
        for code in (ROOT / folder).rglob("*.py"):
            assert (code.parent / "__init__.py").is_file(), f"{code.parent} has no __init__.py: the wheel would lack it"


def test_a_folder_can_be_read_at_a_glance() -> None:
    """More than twenty modules in one folder are several subjects."""
    for folder in FOLDERS[:-1]:
        for package in (ROOT / folder).rglob("__init__.py"):
            modules = [code for code in package.parent.glob("*.py") if code.name not in ("__init__.py", "__main__.py")]
            assert len(modules) <= 20, package.parent


def test_every_floor_is_typed() -> None:
    for folder in ("analysis", "app", "collectors", "models", "parsers"):
        assert (ROOT / folder / "py.typed").is_file()


FREE = {"collections.abc", "io", "pathlib", "threading", "types", "typing"}
"""What every program has loaded anyway."""


def code_of(module: str) -> Path | None:
    """The file of one of our modules or packages; None for what is none."""
    path = ROOT.joinpath(*module.split(".")[1:])
    codes = (path.with_suffix(".py"), path / "__init__.py") if module.startswith("tracetui") else ()
    return next((code for code in codes if code.is_file()), None)


LAZILY = {name: f"tracetui.parsers.{place}" for place, names in tracetui.parsers._PLACES.items() for name in names}
"""Where the names are that the package of the parsers imports when they are asked for."""


@cache
def imports_of(module: str) -> tuple[set[str], set[str]]:
    """What a module imports as soon as it is loaded, and what it names for type checkers alone."""
    always: set[str] = set()
    guarded: set[str] = set()
    code = code_of(module)
    body = ast.parse(code.read_text(encoding="utf-8")).body if code is not None else []
    guards = [node for node in body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    for found, nodes in ((always, body), (guarded, [node for guard in guards for node in guard.body])):
        for node in nodes:
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    lazy = LAZILY.get(alias.name) if node.module == "tracetui.parsers" else None
                    found.add(inner if code_of(inner) is not None else lazy or node.module)
    return always, guarded


def loaded_with(module: str) -> set[str]:
    """Everything that is loaded with a module, packages too."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        parts = waiting.pop().split(".")
        new = {".".join(parts[:end]) for end in range(1, len(parts) + 1)} - seen
        seen |= new
        waiting += [name for each in new for name in imports_of(each)[0]]
    return seen


def test_a_guard_keeps_something_out() -> None:
    """A guard around what its module loads anyway only takes room; what must stay out, the tests below tell."""
    needless = []
    for code in (
        code for folder in ("analysis", "app", "collectors", "parsers") for code in (ROOT / folder).rglob("*.py")
    ):
        place = code.relative_to(ROOT)
        if place.parts[:2] == ("collectors", "child") or code.name == "__init__.py":
            continue  # copied beside the profiled program, whose Python may be an old one
        module = ".".join(("tracetui", *place.with_suffix("").parts))
        guarded = imports_of(module)[1]
        if guarded and guarded <= loaded_with(module) | FREE:
            needless.append(module)
    assert not needless


def test_opening_a_trace_and_reporting_it_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from tracetui.parsers import open_path\n"
        "from tracetui.analysis.report.report import report\n"
        "from tracetui.app.reports.content.run import run_parts\n"
        "from tracetui.app.reports.layout import Layout\n"
        "from tracetui.app.reports.text import text\n"
        "found = report(open_path(sys.argv[1], cache=False))\n"
        "print(len(text(run_parts(found, Layout()), Layout())) > 1000)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert python(script, str(SAMPLE)).splitlines() == ["True", "[]"]


def test_the_lower_floors_need_no_screen() -> None:
    script = (
        "import importlib, pathlib, sys\n"
        "for code in sorted(code for floor in ('parsers', 'analysis') for code in pathlib.Path(floor).rglob('*.py')):\n"
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
        "others = ['operators', 'modules', 'host', 'api', 'ranges', 'memops', 'diff', 'ranks']\n"
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


NAME_PARTS = re.compile(
    r"gemm|cutlass|xmma|nccl|rccl|flash_|fmha|cudnn|cublas|nvjet|cijk|triton|winograd|splitk|tensorop|multi_tensor"
    r"|bf16|tf32|fp16|bfloat16|__half|e4m3|softmax_warp|elementwise_kernel",
    re.IGNORECASE,
)
"""What only names of kernels, and of the types in them, have in a pattern."""
READS_OTHER_NAMES = {
    "analysis/captures/names.py": "names that users give to files",
    "analysis/roofline/peaks.py": "names of ncu's metrics",
    "collectors/scrubbing/keys.py": "names of versions",
    "collectors/scrubbing/redactor.py": "words that are no names of people",
}
ASKING = {
    "compile",
    "search",
    "match",
    "fullmatch",
    "finditer",
    "sub",
    "contains",
    "startswith",
    "starts_with",
    "matching",
}


def patterns_in(code: ast.AST) -> Iterator[ast.Constant]:
    """The texts that code looks for in others."""
    for node in ast.walk(code):
        looked_for: list[ast.expr] = []
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) in ASKING:
            looked_for = node.args
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            looked_for = [node.left]
        for part in (part for each in looked_for for part in ast.walk(each)):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part


def test_what_names_of_kernels_say_is_known_in_one_folder() -> None:
    strangers = []
    for code in (
        code for folder in ("analysis", "app", "collectors", "parsers") for code in (ROOT / folder).rglob("*.py")
    ):
        place = str(code.relative_to(ROOT))
        if place.startswith("parsers/names/") or place in READS_OTHER_NAMES:
            continue
        for text in patterns_in(ast.parse(code.read_text(encoding="utf-8"))):
            if NAME_PARTS.search(text.value) and "aten::" not in text.value:
                strangers.append(f"{place}:{text.lineno}: {text.value}")
    assert not strangers, "ask parsers.names instead: " + "; ".join(strangers)


DOTTED = re.compile(r"`(?:tracetui\.)?((?:analysis|app|collectors|models|parsers)(?:\.[A-Za-z_]\w*)+)")


def members(body: list[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """What a module or a class defines or imports, with the body of each class."""
    named: dict[str, list[ast.stmt]] = {}
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            named[node.name] = node.body if isinstance(node, ast.ClassDef) else []
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named |= {part.id: [] for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
        elif isinstance(node, ast.ImportFrom):
            named |= {alias.asname or alias.name: [] for alias in node.names}
        elif isinstance(node, ast.If):
            named |= members(node.body)
    return named


@cache
def is_defined(dotted: str) -> bool:
    """Whether there is a package, a module, or something in a module of this name."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:length])
        code = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
        if code.is_file():
            body = ast.parse(code.read_text(encoding="utf-8")).body
            for name in parts[length:]:
                inside = members(body)
                if name not in inside:
                    return False
                body = inside[name]
            return True
    return False


def test_names_of_modules_in_the_text_exist() -> None:
    texts = [*ROOT.glob("*.md"), *(text for text in (ROOT / "docs").rglob("*.md") if text.name != "keys.md")]
    texts += [code for folder in (*FOLDERS, "tests", "benchmarks") for code in (ROOT / folder).rglob("*.py")]
    gone = []
    for text in texts:
        for number, line in enumerate(text.read_text(encoding="utf-8").splitlines(), 1):
            missing = [name for name in DOTTED.findall(line) if not is_defined(name)]
            gone += [f"{text.relative_to(ROOT)}:{number}: {name}" for name in missing]
    assert not gone, "\n".join(gone)
