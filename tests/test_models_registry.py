"""The list of models: names, options, sizes by arithmetic, and what the folder must be to be copied to a board."""

import ast
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tracetui.app.cli import main as cli
from tracetui.app.cli.commands.reference import models as models_list
from tracetui.app.text.exit_codes import DONE, USAGE
from tracetui.models import registry
from tracetui.models.errors import ModelError, UnknownModel, WrongOption
from tracetui.models.options import WORDS
from tracetui.models.registry import entries, find
from tracetui.models.sizes import (
    Cost,
    DeitShape,
    GptShape,
    MlpShape,
    VimShape,
    compulsory_bytes,
    deit_cost,
    gpt_cost,
    kept,
    mlp_cost,
    vim_cost,
)

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "models"
SOURCES = sorted(MODELS.rglob("*.py"))


@pytest.mark.parametrize("family", list(registry._MODULES))
def test_every_family_has_its_module(family: str) -> None:
    """Found, not imported: the networks need torch, and a name that leads nowhere shows only there."""
    assert importlib.util.find_spec("tracetui.models." + registry._MODULES[family]) is not None


def test_the_models_that_are_there() -> None:
    assert [entry.name for entry in entries()] == [
        "vim_tiny", "vim_small", "vim_base", "vim_tiny_s8",
        "topk_deit_tiny", "topk_deit_small", "topk_deit_base",
        "gpt_small", "gpt_medium", "gpt_large", "gpt_xl", "gpt_2.7B",
        "gpt_server", "mlp",
    ]  # fmt: skip
    for entry in entries():
        assert find(entry.name) is entry
        assert set(entry.defaults) == set(entry.options)
        assert set(entry.options) <= set(WORDS)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # hustvl/Vim: 7, 26 and 98 M; counted in the same network written out by hand
        ("vim_tiny", 7_148_008),
        ("vim_small", 25_796_584),
        ("vim_base", 97_598_440),
        ("vim_tiny_s8", 7_250_344),
        # timm's deit_*_patch16_224
        ("topk_deit_tiny", 5_717_416),
        ("topk_deit_small", 22_050_664),
        ("topk_deit_base", 86_567_656),
        # 12 d² a block (2.7B: 32 blocks of 2560) and twice 10,000 d
        ("gpt_small", 100_313_856),
        ("gpt_2.7B", 2_567_948_800),
    ],
)
def test_parameters_as_published(name: str, parameters: int) -> None:
    assert find(name).parameters == parameters


@pytest.mark.parametrize(
    ("size", "keep", "gmacs", "published"),
    [(224, 1.0, 17.564, 17.5687), (224, 0.1, 5.552, 5.5531), (448, 1.0, 78.495, 78.52), (448, 0.1, 24.727, 24.73)],
)
def test_token_reduction_takes_the_published_work(size: int, keep: float, gmacs: float, published: float) -> None:
    shape = DeitShape(768, 12, img_size=size, keep=keep, reduction_loc=(3, 6, 9) if keep < 1 else ())
    found = deit_cost(shape, 1).flops / 2e9
    assert round(found, 3) == gmacs
    assert found == pytest.approx(published, rel=1e-3)
    assert deit_cost(shape, 7).products == 7 * deit_cost(shape, 1).products


def test_tokens_left_in_each_block() -> None:
    shape = DeitShape(192, 3, keep=0.1, reduction_loc=(3, 6, 9))
    patches = [left - 1 for _, left in shape.tokens()]
    assert patches == [196] * 3 + [20] * 3 + [2] * 3 + [1] * 3
    assert [kept(keep, n) for keep, n in ((0.5, 5), (1.0, 5), (0.001, 5), (0.7, 196))] == [3, 5, 1, 138]


def test_vision_mamba_s_work_by_hand() -> None:
    tokens, inner = 197, 384
    each = tokens * (192 * 768 + 384 * 192) + 2 * tokens * inner * (4 + 44 + 12)
    products = 2 * (196 * 768 * 192 + 24 * each + 192 * 1000)
    scans = 2 * 24 * tokens * inner * (7 * 16 + 7)
    cost = vim_cost(VimShape(192), 3)
    assert (cost.products, cost.scans) == (3 * products, 3 * scans)
    # weights once, images once, logits once
    assert cost.compulsory_bytes == 4 * (7_148_008 + 3 * 3 * 224 * 224 + 3 * 1000)
    trained = vim_cost(VimShape(192), 3, train=True)
    assert trained.products == 3 * (3 * products - 2 * 196 * 768 * 192)
    assert trained.scans == 9 * scans


def test_gpt_s_work_is_near_two_per_parameter_and_token() -> None:
    shape = GptShape(768, 3072, 12, 12, ctx=128)
    cost = gpt_cost(shape, 4)
    without_embedding = shape.parameters - shape.vocabulary * shape.width
    attention = 4 * 4 * 128 * 128 * 768 * 12
    norms = 25 * 768
    assert cost.flops == 2 * (without_embedding - norms) * 4 * 128 + attention
    assert gpt_cost(shape, 4, train=True).flops == 3 * cost.flops


def test_compulsory_bytes_of_training() -> None:
    assert compulsory_bytes(1000, 64, 32, train=False) == 4096
    assert compulsory_bytes(1000, 64, 32, train=True) == 6 * 4000 + 64 + 4
    assert compulsory_bytes(1000, 64, 32, train=False, unread=100) == 3696
    half = mlp_cost(MlpShape(), 8, output_bytes_each=2).compulsory_bytes
    assert mlp_cost(MlpShape(), 8).compulsory_bytes - half == 8 * 1000 * 2


def test_unknown_names_are_one_line_with_what_is_near() -> None:
    with pytest.raises(UnknownModel, match=r"no model 'vim-tiny' \(did you mean vim_tiny") as caught:
        find("vim-tiny")
    assert "\n" not in str(caught.value)
    for name in ("nothing_like_it_at_all", "", ":", "timm:", "a b:c", "x:"):
        with pytest.raises(UnknownModel):
            find(name)
    assert find("gpt_2.7B").parameters
    with pytest.raises(UnknownModel, match=r"gpt_2\.7B"):
        find("gpt_2.7b")


def test_names_of_timm_and_of_the_user() -> None:
    entry = find("timm:vit_tiny_patch16_224")
    assert (entry.family, entry.parameters, entry.cost) == ("timm", None, None)
    assert "timm>=1.0" in [str(need) for need in entry.needs]
    entry = find("my_package.nets:make.small")
    assert (entry.family, entry.name) == ("user", "my_package.nets:make.small")


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("vim_tiny", {"ctx": 128}, "vim_tiny takes no 'ctx'; it takes batch, img_size, patch"),
        ("gpt_small", {"data": "imagefolder:/tmp"}, "gpt_small takes no 'data'"),
        ("gpt_server", {"train": True}, "takes no train"),
        ("gpt_server", {"kv_cache": "growing", "cuda_graphs": True, "device": "cuda"}, "needs the static cache"),
        ("mlp", {"batch": 0}, "batch is 0, but must be a whole number of at least 1"),
        ("mlp", {"batch": 2.5}, "batch is 2.5"),
        ("mlp", {"batch": "many"}, "batch is 'many'"),
        ("mlp", {"batch": float("nan")}, "batch is nan"),
        ("mlp", {"dtype": "int8"}, "dtype is 'int8', but must be one of fp32, fp16, bf16, tf32"),
        ("mlp", {"device": "tpu"}, "device is 'tpu', but must be cpu, cuda or cuda:N"),
        ("mlp", {"device": "cuda:"}, "device is 'cuda:'"),
        ("topk_deit_tiny", {"keep": 0}, "keep is 0, but must be above 0"),
        ("topk_deit_tiny", {"keep": 1.5}, "keep is 1.5"),
        ("topk_deit_tiny", {"reduction_loc": "3,x"}, "reduction_loc is 'x'"),
        ("vim_tiny", {"data": "imagefolder:"}, "data is 'imagefolder:', but must be random or imagefolder:PATH"),
        ("vim_tiny", {"workers": -1}, "workers is -1"),
    ],
)
def test_wrong_options_are_one_line(name: str, options: dict[str, object], words: str) -> None:
    with pytest.raises(WrongOption) as caught:
        find(name).build(options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ModelError)


def test_options_over_the_defaults() -> None:
    entry = find("topk_deit_tiny")
    assert entry.check({"batch": None}) == entry.defaults
    chosen = entry.check({"batch": "8", "keep": "0.5", "reduction_loc": "9, 3,3", "train": True})
    assert {name: value for name, value in chosen.items() if entry.defaults[name] != value} == {
        "batch": 8, "keep": 0.5, "reduction_loc": (3, 9), "train": True,
    }  # fmt: skip


def test_a_cost_adds_up() -> None:
    assert Cost(5, 7, 0).flops == 12


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_written_for_python_3_8(source: Path) -> None:
    tree = ast.parse(source.read_text(encoding="utf-8"), feature_version=(3, 8))
    assert (
        any(
            isinstance(node, ast.ImportFrom) and node.module == "__future__" and node.names[0].name == "annotations"
            for node in tree.body
        )
        or len(tree.body) == 1
    )
    assert list(_newer_than_3_8(tree)) == []


NEW_MODULES = {"tomllib", "zoneinfo", "graphlib"}
NEW_NAMES = {
    "removeprefix", "removesuffix", "bit_count", "pairwise", "batched", "packages_distributions", "anext", "aiter",
    "EncodingWarning", "ExceptionGroup", "BaseExceptionGroup", "randbytes", "is_relative_to", "readlink", "hardlink_to",
    "to_thread", "unparse", "nulltime", "add_note",
}  # fmt: skip
BUILT_IN_TYPES = {"list", "dict", "tuple", "set", "frozenset", "type", "Callable", "Iterator", "Iterable", "Sequence"}


def _newer_than_3_8(tree: ast.Module):
    """What Python 3.8 would trip over when it runs, annotations aside: those are never evaluated here."""
    annotations = set()
    for node in ast.walk(tree):
        places = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        annotations.update(id(inner) for place in places if place is not None for inner in ast.walk(place))
    for node in ast.walk(tree):
        if id(node) in annotations:
            continue
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in BUILT_IN_TYPES:
            yield node.lineno, ast.unparse(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            yield node.lineno, ast.unparse(node)
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.BitOr):
            yield node.lineno, ast.unparse(node)
        if isinstance(node, (ast.Attribute, ast.Name)) and getattr(node, "attr", getattr(node, "id", "")) in NEW_NAMES:
            yield node.lineno, ast.unparse(node)
        if isinstance(node, ast.Call):
            yield from _new_arguments(node)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = {alias.name.split(".")[0] for alias in node.names} | {getattr(node, "module", None) or ""}
            if names & NEW_MODULES:
                yield node.lineno, ast.unparse(node)
        if isinstance(node, ast.FunctionDef) and any(
            ast.unparse(d) in ("cache", "functools.cache") for d in node.decorator_list
        ):
            yield node.lineno, "functools.cache"


def _new_arguments(node: ast.Call):
    called = ast.unparse(node.func)
    given = {keyword.arg for keyword in node.keywords}
    if (called == "zip" and "strict" in given) or (called.endswith("dataclass") and given & {"slots", "kw_only"}):
        yield node.lineno, ast.unparse(node)
    # until 3.10 it takes the three parts of an exception by position
    if called.endswith("format_exception") and len(node.args) != 3:
        yield node.lineno, ast.unparse(node)


@pytest.mark.parametrize(
    "code",
    ["x = list[int]", "a | b", "x |= y", "s.removeprefix('a')", "zip(a, b, strict=True)", "import tomllib",
     "@dataclass(slots=True)\nclass A: pass", "traceback.format_exception(e)"],
)  # fmt: skip
def test_the_check_for_python_3_8_finds_what_is_newer(code: str) -> None:
    assert list(_newer_than_3_8(ast.parse(code)))


def test_only_relative_imports() -> None:
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and not node.level:
                assert node.module.split(".")[0] not in ("tracetui", "models", "parsers"), source
            elif isinstance(node, ast.Import):
                assert not {alias.name.split(".")[0] for alias in node.names} & {"tracetui", "models"}, source


@pytest.mark.parametrize("python", ["python3.8", sys.executable], ids=["python3.8", "this"])
def test_the_list_works_copied_elsewhere_with_the_standard_library_only(tmp_path: Path, python: str) -> None:
    if (
        shutil.which(python) is None
        or subprocess.run([python, "--version"], capture_output=True, check=False).returncode
    ):
        pytest.skip(f"there is no {python}")
    shutil.copytree(MODELS, tmp_path / "carried")
    script = (
        "import json, sys\n"
        "from carried import errors, registry\n"
        "before = {'torch', 'numpy', 'timm', 'mamba_ssm', 'tracetui'} & set(sys.modules)\n"
        "try:\n"
        "    registry.find('mlp').build({})\n"
        "    said = ''\n"
        "except errors.ModelError as error:\n"
        "    said = str(error)\n"
        "print(json.dumps([len(registry.entries()), sorted(before), said]))"
    )
    # -S leaves out site-packages: as a Python without anything installed.
    done = subprocess.run(
        [python, "-S", "-W", "error", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    count, loaded, said = json.loads(done.stdout)
    assert (count, loaded) == (len(entries()), [])
    assert said == "mlp needs torch, which is not installed: python -m pip install torch"


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


def test_ready_where_only_what_is_optional_is_missing(capsys, monkeypatch) -> None:
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
def test_a_python_that_cannot_be_asked(tmp_path, capsys, script, words) -> None:
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
