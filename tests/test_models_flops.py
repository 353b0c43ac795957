# ruff: noqa: E402  torch is asked for first
"""FLOPs by arithmetic against torch's own counter, where that counts the same operations."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
counter = pytest.importorskip("torch.utils.flop_counter", reason="this torch has no FlopCounterMode")

from tracetui.models.networks.gpt import Gpt
from tracetui.models.networks.mlp import Mlp
from tracetui.models.networks.topk_deit import TopkDeit
from tracetui.models.networks.vim import VisionMamba
from tracetui.models.sizes import DeitShape, GptShape, MlpShape, VimShape, deit_cost, gpt_cost, mlp_cost, vim_cost


def counted(model, inputs, *, train: bool) -> int:
    model.train(train)
    with counter.FlopCounterMode(display=False) as flops, torch.set_grad_enabled(train):
        output = model(inputs)
        if train:
            output.square().sum().backward()
    return flops.get_total_flops()


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize(
    "shape",
    [
        DeitShape(48, 3, depth=4, img_size=64),
        DeitShape(48, 3, depth=5, img_size=64, keep=0.4, reduction_loc=(1, 3)),
        DeitShape(48, 3, depth=3, img_size=70, patch=14, keep=0.01, reduction_loc=(0,)),
    ],
)
def test_deit(shape: DeitShape, train: bool) -> None:
    images = torch.randn(3, 3, shape.img_size, shape.img_size)
    assert deit_cost(shape, 3, train=train).products == counted(TopkDeit(shape), images, train=train)


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_deit_base_with_keep_0_1_has_5_55_gmacs(train: bool) -> None:
    shape = DeitShape(768, 12, keep=0.1, reduction_loc=(3, 6, 9))
    with torch.device("meta"):
        model, images = TopkDeit(shape), torch.empty(1, 3, 224, 224)
    found = counted(model, images, train=train)
    assert found == deit_cost(shape, 1, train=train).flops
    if not train:
        assert round(found / 2e9, 2) == 5.55


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_gpt(train: bool) -> None:
    shape = GptShape(64, 256, 3, 4, ctx=32, vocabulary=100)
    tokens = torch.randint(100, (2, 32))
    assert gpt_cost(shape, 2, train=train).flops == counted(Gpt(shape), tokens, train=train)


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_mlp(train: bool) -> None:
    shape = MlpShape(depth=3, width=32, classes=7)
    assert mlp_cost(shape, 5, train=train).flops == counted(Mlp(shape), torch.randn(5, 32), train=train)


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("stride", [16, 8])
def test_vision_mamba_but_for_its_scan(stride: int, train: bool) -> None:
    shape, batch = VimShape(32, depth=2, img_size=48, stride=stride, classes=10), 2
    model = VisionMamba(shape).train(train)
    with counter.FlopCounterMode(display=False) as flops, torch.set_grad_enabled(train):
        output = model(torch.randn(batch, 3, 48, 48))
        if train:
            output.square().sum().backward()
    by_operator = {str(name): count for name, count in flops.get_flop_counts()["Global"].items()}
    patches = 2 * batch * shape.patches * 3 * 16 * 16 * shape.width
    causal = 2 * batch * shape.tokens * 4 * shape.inner * 2 * shape.depth
    # The reference convolves three tokens more than it keeps, and torch counts a grouped backward pass as a whole one.
    padded = 2 * batch * (shape.tokens + 3) * 4 * shape.inner * 2 * shape.depth
    assert by_operator["aten.convolution"] == patches + padded
    cost = vim_cost(shape, batch, train=train)
    convolutions = 2 * patches + 3 * causal if train else patches + causal
    assert cost.products - convolutions == by_operator["aten.mm"] + by_operator["aten.addmm"]
    # Of the scan it sees one product, the state with C: 2 for each number of the state.
    seen = 2 * 2 * shape.depth * batch * shape.tokens * shape.inner * shape.state * (3 if train else 1)
    assert by_operator["aten.bmm"] == seen
    assert cost.scans == pytest.approx(seen * (7 * 16 + 7) / 32)


def test_compulsory_bytes_hold_every_parameter_once() -> None:
    shape = GptShape(64, 256, 2, 4, ctx=16, vocabulary=100)
    model = Gpt(shape)
    assert sum(parameter.numel() for parameter in model.parameters()) == shape.parameters
    # so many tokens name (nearly) every row of the embedding
    cost = gpt_cost(shape, 1000)
    assert cost.compulsory_bytes == pytest.approx(4 * shape.parameters + 8 * 16_000 + 4 * 16_000 * 100, abs=4 * 64)
    few = gpt_cost(shape, 1)
    unread = 4 * shape.parameters + 8 * 16 + 4 * 16 * 100 - few.compulsory_bytes
    assert 84 * 64 * 4 <= unread <= 86 * 64 * 4
