# ruff: noqa: E402  torch is asked for first
"""The user's own model, and timm's: what a factory may return, and what is said when it goes wrong."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tracetui.models.errors import MissingRequirement, ModelError, UnknownModel, UserModelError, WrongOption
from tracetui.models.networks import timm_models
from tracetui.models.registry import find

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Writes a module into the current directory and gives its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made: list[str] = []

    def write(code: str) -> str:
        name = f"own_model_{len(made)}"
        (tmp_path / f"{name}.py").write_text("import torch\nfrom torch import nn\n" + dedent(code))
        made.append(name)
        return name

    yield write
    for name in made:
        sys.modules.pop(name, None)
    sys.path_importer_cache.pop(str(tmp_path), None)


def test_a_module_alone_gets_images(module: Callable[[str], str]) -> None:
    name = module("def make():\n    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 14 * 14, 5))")
    work = find(f"{name}:make").build({"batch": 2, "img_size": 16})
    work.step(next(work.batches()))
    assert (work.backend, work.samples_per_step) == ("user", 2)
    assert work.parameters == 8 * 28 + 5 * (8 * 196 + 1)
    assert work.flops_per_step() == 2 * 2 * (196 * 27 * 8 + 8 * 196 * 5)
    assert work.compulsory_bytes_per_step() == 4 * (work.parameters + 2 * 3 * 256 + 2 * 5)
    described = json.loads(json.dumps(work.describe()))
    assert described["input_shapes"] == [[2, 3, 16, 16]]
    assert "random images" in described["notes"][0]
    assert sys.path[0] != ""


@pytest.mark.parametrize(
    ("batch", "shapes"),
    [
        ("torch.zeros(count, 7)", [[4, 7]]),
        ("(torch.zeros(count, 7),)", [[4, 7]]),
        ("{'x': torch.zeros(count, 7)}", [[4, 7]]),
    ],
)
def test_a_module_with_its_own_batches(module: Callable[[str], str], batch: str, shapes: list[list[int]]) -> None:
    name = module(
        f"""
        class Net(nn.Linear):
            def forward(self, x):
                return super().forward(x)

        def make(options):
            assert options["ctx"] == 9 and options["dtype"] == "bf16"
            return Net(7, 3), lambda count: {batch}
        """
    )
    work = find(f"{name}:make").build({"ctx": 9, "dtype": "bf16", "batch": 4})
    work.step(next(work.batches()))
    assert work.describe()["input_shapes"] == shapes
    assert work.flops_per_step() == 2 * 4 * 21
    assert work.compulsory_bytes_per_step() == 4 * (24 + 28) + 2 * 12
    with pytest.raises(ModelError, match="for models without a make_batch"):
        find(f"{name}:make").build({"ctx": 9, "dtype": "bf16", "workers": 2})


def test_what_trains_it(module: Callable[[str], str]) -> None:
    name = module(
        """
        class Net(nn.Module):
            def __init__(self, how):
                super().__init__()
                self.layer, self.how = nn.Linear(4, 2), how

            def forward(self, x):
                y = self.layer(x)
                return {"loss": y.sum()} if self.how == "dict" else y.sum() if self.how == "loss" else (y, y)

        def batch():
            return torch.ones(3, 4)

        def as_dict(): return Net("dict"), batch
        def as_loss(): return Net("loss"), batch
        def neither(): return Net(""), batch
        """
    )
    for how in ("as_dict", "as_loss", "neither"):
        work = find(f"{name}:{how}").build({"train": True})
        before = work.model.layer.weight.detach().clone()
        work.step(work.make_batch())
        assert not torch.equal(before, work.model.layer.weight)
        assert any("mean of its squares" in note for note in work.describe()["notes"]) == (how == "neither")
        # forward, and the gradient of the weight: nobody needs that of the input
        assert work.flops_per_step() == 2 * 2 * 3 * 4 * 2
        assert (work.samples_per_step, work.describe()["requested_batch"]) == (3, 4)


def test_what_cannot_be_counted_is_unknown(module: Callable[[str], str]) -> None:
    name = module(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 2)

            def forward(self, x):
                return self.layer(x) if float(x.sum()) > 0 else x

        def make(): return Net(), lambda: torch.ones(3, 4)
        """
    )
    work = find(f"{name}:make").build({})
    work.step(work.make_batch())
    assert (work.flops_per_step(), work.compulsory_bytes_per_step()) == (None, None)


def test_the_examples_of_the_documentation(module: Callable[[str], str]) -> None:
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    name = module(page.split("```python\n")[1].split("```")[0])
    for factory, parameters, flops in (
        ("image_model", 10 * (3 * 64 + 1), 4 * 2 * 10 * 192),
        ("with_batches", 4160, 32768),
    ):
        for train in (False, True):
            work = find(f"{name}:{factory}").build({"img_size": 8, "train": train})
            work.step(work.make_batch())
            assert work.parameters == parameters
        assert find(f"{name}:{factory}").build({"img_size": 8}).flops_per_step() == flops
    work = find(f"{name}:OwnSteps").build({})
    work.step(next(work.batches()))
    assert (work.samples_per_step, work.parameters, work.flops_per_step()) == (8, None, None)


def test_counting_leaves_nothing_in_the_model(module: Callable[[str], str]) -> None:
    name = module(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.cache = nn.Linear(4, 2), None
                self.register_buffer("scale", torch.ones(2))

            def forward(self, x):
                if self.cache is None:
                    self.cache = torch.ones(2, device=x.device)
                return self.layer(x) * self.cache * self.scale

        def make(): return Net(), lambda: torch.ones(3, 4)
        """
    )
    work = find(f"{name}:make").build({})
    # before the first step, a step of as many samples as were asked for
    assert work.flops_per_step() == 2 * 4 * 2 * 3
    assert work.model.cache is None
    work.step(work.make_batch())
    assert work.model.cache.device.type == "cpu"


def test_an_object_that_runs_its_own_steps(module: Callable[[str], str]) -> None:
    name = module(
        """
        class Work:
            def __init__(self):
                self.model, self.steps = nn.Linear(3, 3), 0

            def make_batch(self):
                return torch.ones(6, 3)

            def step(self, batch):
                self.steps += 1
                self.model(batch)

            def flops_per_step(self):
                return 108

            def describe(self):
                return {"dtype": "fp8"}
        """
    )
    work = find(f"{name}:Work").build({"batch": 2})
    batches = work.batches()
    for _ in range(2):
        work.step(next(batches))
    assert (work.own.steps, work.samples_per_step, work.parameters, work.backend) == (2, 6, 12, "user")
    assert work.input_shapes(next(batches)) == [[6, 3]]
    described = json.loads(json.dumps(work.describe()))
    assert (described["dtype"], described["flops_per_step"], described["compulsory_bytes_per_step"]) == (
        "fp8",
        108,
        None,
    )


@pytest.mark.parametrize(
    ("code", "attribute", "words", "in_traceback"),
    [
        ("def make():\n    return nn.Nonsense(3)", "make", "failed: AttributeError: ", "line 4, in make"),
        ("raise RuntimeError('two\\nlines')", "make", "can't be imported: RuntimeError: two", "line 3, in <module>"),
        ("def make(:\n", "make", "can't be imported: SyntaxError", "make(:"),
        ("import not_there_at_all", "make", "can't be imported: ModuleNotFoundError: No module named 'not_", "line 3"),
        ("raise SystemExit(3)", "make", "can't be imported: SystemExit: 3", "line 3"),
        ("x = 3", "make", "has no 'make'", ""),
        ("make = 3", "make", "is int, not a function that returns a model", ""),
        ("def make():\n    return 3", "make", "returned int, which is no nn.Module", ""),
        ("def make():\n    return nn.Linear(2, 2), lambda: 'text'", "make", "", ""),
    ],
)
def test_what_goes_wrong_is_one_line_and_a_traceback_for_the_log(module, code, attribute, words, in_traceback) -> None:
    name = module(code)
    with pytest.raises(UserModelError) as caught:
        find(f"{name}:{attribute}").build({}).make_batch()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    # what the log gets shows the user's own lines too
    assert in_traceback in "".join(traceback.format_exception(caught.type, caught.value, caught.tb))
    assert (caught.value.__cause__ is not None) == bool(in_traceback)


def test_a_module_that_is_not_there() -> None:
    with pytest.raises(UserModelError, match=r"no module 'no\.such\.module' in the current directory or on PYTHONPATH"):
        find("no.such.module:make").build({})


class FakeTimm(ModuleType):
    """So much of timm as is used, for where it is not installed."""

    __version__ = "1.0.31"

    def is_model(self, name: str) -> bool:
        return name in self.list_models()

    def list_models(self) -> list[str]:
        return ["vit_tiny_patch16_224", "resnet18"]

    def create_model(self, name: str, *, pretrained: bool, **options: Any) -> Any:
        assert not pretrained
        if name == "resnet18" and options:
            raise TypeError(f"ResNet.__init__() got an unexpected keyword argument {next(iter(options))!r}")
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 16, 16), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
        model.num_classes, model.default_cfg = 8, {"input_size": (3, 224, 224)}
        return model


@pytest.fixture
def fake_timm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", FakeTimm("timm"))
    monkeypatch.setattr("tracetui.models.needs.is_there", lambda module: True)


def test_models_of_timm(fake_timm: None) -> None:
    work = find("timm:vit_tiny_patch16_224").build({"batch": 2})
    work.step(work.make_batch())
    assert work.describe()["input_shapes"] == [[2, 3, 224, 224], [2]]
    assert work.flops_per_step() == 2 * 2 * 196 * 768 * 8
    assert (work.backend, work.describe()["backend_versions"]) == ("timm", {"timm": "1.0.31"})
    work = find("timm:resnet18").build({"img_size": 32, "train": True})
    work.step(work.make_batch())
    assert work.describe()["input_shapes"][0] == [4, 3, 32, 32]
    with pytest.raises(WrongOption, match="timm's resnet18 takes no 'depth'"):
        find("timm:resnet18").build({"depth": 3})
    with pytest.raises(UnknownModel, match="timm has no model 'resnet19'; it has resnet18"):
        find("timm:resnet19").build({})


def test_without_timm_the_command_that_keeps_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracetui.models.needs.is_there", lambda module: module != "timm")
    with pytest.raises(MissingRequirement, match=r"needs timm, which is not installed: .*torch\.lock.* timm"):
        find("timm:resnet18").build({})


def test_a_torchvision_for_another_torch_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(name: str, *given: object) -> object:
        if name == "timm":
            raise RuntimeError("operator torchvision::nms does not exist")
        return real(name, *given)

    import builtins

    real = builtins.__import__
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.setattr("builtins.__import__", failing)
    monkeypatch.setattr(timm_models, "version", lambda name: "0.28.0")
    with pytest.raises(ModelError, match="needs a torchvision that was built for this torch") as caught:
        timm_models._imported()
    assert "0.28.0" in str(caught.value)
    assert "install torchvision from the index that torch came from" in str(caught.value)


def test_real_timm_has_the_same_deit() -> None:
    pytest.importorskip("timm", reason="timm is not installed", exc_type=(ImportError, RuntimeError))
    import timm

    from tracetui.models.networks.topk_deit import TopkDeit
    from tracetui.models.sizes import DeitShape

    theirs = timm.create_model("deit_tiny_patch16_224").eval()
    ours = TopkDeit(DeitShape(192, 3)).eval()
    ours.load_state_dict(theirs.state_dict())
    images = torch.randn(1, 3, 224, 224)
    with torch.inference_mode():
        torch.testing.assert_close(ours(images), theirs(images), rtol=1e-4, atol=1e-4)


def test_own_names_are_kept(module: Callable[[str], str]) -> None:
    name = module(
        "class Zoo:\n    @staticmethod\n    def small():\n        return nn.Linear(3, 3), lambda: torch.ones(1, 3)"
    )
    work = find(f"{name}:Zoo.small").build({})
    assert work.entry_name == f"{name}:Zoo.small"
    assert work.describe()["model"] == work.entry_name
