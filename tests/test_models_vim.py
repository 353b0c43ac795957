# ruff: noqa: E402  torch is asked for first
"""Vision Mamba: the reference against naive loops in float64, both backends against each other, sizes as published."""

from __future__ import annotations

import math
import sys
import types
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tracetui.models import registry
from tracetui.models.networks import selective_scan
from tracetui.models.networks.vim import EPS, VisionMamba
from tracetui.models.sizes import VIM_WIDTHS, VimShape

STORED = Path(__file__).resolve().parent / "data" / "vim_on_cuda.pt"
SMALL = VimShape(32, depth=2, img_size=48, patch=16, classes=10)


def softplus(x: float) -> float:
    return x if x > 20 else math.log1p(math.exp(x))


def silu(x: float) -> float:
    return x / (1 + math.exp(-x))


def naive_scan(u, delta, a, b, c, d, z, bias):
    """The definition, number by number, in Python's float64."""
    batch, channels, tokens = u.shape
    u, delta, a, b, c, d, z, bias = (tensor.tolist() for tensor in (u, delta, a, b, c, d, z, bias))
    y = torch.zeros(batch, channels, tokens, dtype=torch.float64)
    for sample in range(batch):
        for channel in range(channels):
            state = [0.0] * len(a[channel])
            for token in range(tokens):
                given = u[sample][channel][token]
                step = softplus(delta[sample][channel][token] + bias[channel])
                total = d[channel] * given
                for n in range(len(state)):
                    state[n] = math.exp(step * a[channel][n]) * state[n] + step * b[sample][n][token] * given
                    total += c[sample][n][token] * state[n]
                y[sample, channel, token] = total * silu(z[sample][channel][token])
    return y


def scan_inputs(batch: int, channels: int, tokens: int, states: int, seed: int = 0):
    torch.manual_seed(seed)
    return (
        torch.randn(batch, channels, tokens),
        torch.randn(batch, channels, tokens),
        -torch.rand(channels, states) * 16,
        torch.randn(batch, states, tokens),
        torch.randn(batch, states, tokens),
        torch.randn(channels),
        torch.randn(batch, channels, tokens),
        torch.randn(channels) - 3,
    )


@pytest.mark.parametrize(("batch", "channels", "tokens", "states"), [(1, 1, 1, 1), (2, 5, 7, 4), (2, 3, 150, 16)])
def test_the_scan_is_the_definition(batch: int, channels: int, tokens: int, states: int) -> None:
    given = scan_inputs(batch, channels, tokens, states)
    torch.testing.assert_close(selective_scan.selective_scan(*given).double(), naive_scan(*given), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("chunk", [1, 3, 64, 1000])
def test_the_length_of_chunks_changes_nothing(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given = scan_inputs(2, 4, 70, 8)
    expected = selective_scan.selective_scan(*given)
    monkeypatch.setattr(selective_scan, "CHUNK", chunk)
    torch.testing.assert_close(selective_scan.selective_scan(*given), expected, rtol=1e-6, atol=1e-6)


def test_the_scan_s_gradients_are_those_of_its_definition() -> None:
    given = tuple(part.double().requires_grad_() for part in scan_inputs(1, 2, 5, 3))

    def by_definition(u, delta, a, b, c, d, z, bias):
        step = torch.nn.functional.softplus(delta + bias[:, None])
        state, ys = torch.zeros(1, 2, 3, dtype=torch.float64), []
        for token in range(5):
            here = step[..., token, None]
            state = torch.exp(here * a) * state + here * b[:, None, :, token] * u[..., token, None]
            ys.append((state * c[:, None, :, token]).sum(-1))
        return (torch.stack(ys, -1) + d[:, None] * u) * torch.nn.functional.silu(z)

    expected = torch.autograd.grad(by_definition(*given).square().sum(), given)
    # the reference computes in fp32
    found = torch.autograd.grad(selective_scan.selective_scan(*given).square().sum(), given)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_the_scan_computes_in_fp32_whatever_it_is_given() -> None:
    given = scan_inputs(1, 4, 40, 8)
    expected = selective_scan.selective_scan(*given)
    half = [part.bfloat16() if n in (0, 1, 3, 4, 6) else part for n, part in enumerate(given)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = selective_scan.selective_scan(*half)
    assert found.dtype == torch.bfloat16
    rounded = [part.float() for part in half]
    torch.testing.assert_close(found.float(), selective_scan.selective_scan(*rounded), rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(found.float(), expected, rtol=0.2, atol=0.2)


def test_the_convolution_looks_back_only() -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(2, 3, 9), torch.randn(3, 4), torch.randn(3)
    found = selective_scan.causal_conv(x, weight, bias)
    for sample, channel, token in ((0, 0, 0), (1, 2, 3), (0, 1, 8)):
        total = float(bias[channel])
        for tap in range(4):
            if token - tap >= 0:
                total += float(weight[channel, 3 - tap]) * float(x[sample, channel, token - tap])
        assert float(found[sample, channel, token]) == pytest.approx(silu(total), rel=1e-5, abs=1e-6)


def naive_network(state, images, shape: VimShape):
    """The whole network in float64 from its weights, written apart from it: one token at a time."""
    w = {name: tensor.double() for name, tensor in state.items()}
    side = (shape.img_size - shape.patch) // shape.stride + 1
    rows = []
    for row in range(side):
        for column in range(side):
            top, left = row * shape.stride, column * shape.stride
            patch = images[:, :, top : top + shape.patch, left : left + shape.patch].double()
            weight = w["patch_embed.proj.weight"]
            rows.append(torch.einsum("bchw,dchw->bd", patch, weight) + w["patch_embed.proj.bias"])
    middle = len(rows) // 2
    rows.insert(middle, w["cls_token"][0].expand(images.shape[0], -1))
    hidden = torch.stack(rows, 1) + w["pos_embed"]
    total = torch.zeros_like(hidden)

    def norm(x, weight):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPS) * weight

    for layer in range(shape.depth):
        total = total + hidden
        normed = norm(total, w[f"layers.{layer}.norm.weight"])
        own = {
            name[len(f"layers.{layer}.mixer.") :]: t
            for name, t in w.items()
            if name.startswith(f"layers.{layer}.mixer.")
        }
        both = normed @ own["in_proj.weight"].T
        forth = naive_direction(both, own, "", own["A_log"])
        back = naive_direction(both.flip(1), own, "_b", own["A_b_log"]).flip(1)
        hidden = (forth + back) / 2 @ own["out_proj.weight"].T
    final = norm(total + hidden, w["norm_f.weight"])[:, middle]
    return final @ w["head.weight"].T + w["head.bias"]


def naive_direction(both, own, end: str, a_log):
    x, z = both.chunk(2, -1)
    taps = own[f"conv1d{end}.weight"][:, 0]
    conv = torch.zeros_like(x)
    for token in range(x.shape[1]):
        for back in range(min(4, token + 1)):
            conv[:, token] += taps[:, 3 - back] * x[:, token - back]
    x = torch.nn.functional.silu(conv + own[f"conv1d{end}.bias"])
    projected = x @ own[f"x_proj{end}.weight"].T
    rank = own[f"dt_proj{end}.weight"].shape[1]
    low, into, out_of = projected.split([rank, a_log.shape[1], a_log.shape[1]], -1)
    delta = low @ own[f"dt_proj{end}.weight"].T
    scanned = naive_scan(
        x.transpose(1, 2), delta.transpose(1, 2), -torch.exp(a_log), into.transpose(1, 2), out_of.transpose(1, 2),
        own[f"D{end}"], z.transpose(1, 2), own[f"dt_proj{end}.bias"],
    )  # fmt: skip
    return scanned.transpose(1, 2)


@pytest.mark.parametrize("shape", [SMALL, VimShape(16, depth=1, img_size=40, patch=16, stride=8, classes=7)])
def test_the_network_is_the_published_one_step_by_step(shape: VimShape) -> None:
    torch.manual_seed(3)
    model = VisionMamba(shape).eval()
    images = torch.randn(2, 3, shape.img_size, shape.img_size)
    with torch.inference_mode():
        found = model(images)
    torch.testing.assert_close(found.double(), naive_network(model.state_dict(), images, shape), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", list(VIM_WIDTHS))
def test_parameters_are_as_counted(name: str) -> None:
    entry = registry.find(name)
    shape = VimShape(VIM_WIDTHS[name], stride=8 if name.endswith("_s8") else 16)
    with torch.device("meta"):
        model = VisionMamba(shape)
    assert sum(parameter.numel() for parameter in model.parameters()) == entry.parameters == shape.parameters


def test_parameters_have_upstream_s_names() -> None:
    with torch.device("meta"):
        names = set(VisionMamba(SMALL).state_dict())
    mixer = (
        "A_log", "A_b_log", "D", "D_b", "in_proj.weight", "out_proj.weight",
        *(f"{part}{end}" for part in ("conv1d", "dt_proj") for end in (".weight", ".bias")),
        *(f"{part}_b{end}" for part in ("conv1d", "dt_proj") for end in (".weight", ".bias")),
        "x_proj.weight", "x_proj_b.weight",
    )  # fmt: skip
    blocks = {f"layers.{n}.{name}" for n in range(2) for name in (*(f"mixer.{m}" for m in mixer), "norm.weight")}
    ends = {
        "cls_token", "pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias", "norm_f.weight",
        "head.weight", "head.bias",
    }  # fmt: skip
    assert names == blocks | ends


def checked_scan(u, delta, a, b, c, d=None, z=None, delta_bias=None, delta_softplus=False):
    """Stands in for mamba_ssm's: makes the demands of its C++ code, then computes by definition."""
    assert delta_softplus
    tensors = [u, delta, b, c, z]
    assert all(tensor.dtype == u.dtype for tensor in tensors)
    assert a.dtype == d.dtype == delta_bias.dtype == torch.float32
    assert u.shape == delta.shape == z.shape
    assert b.shape == c.shape == (u.shape[0], a.shape[1], u.shape[2])
    assert all(tensor.stride(-1) == 1 for tensor in tensors), "the kernel would copy it first"
    return naive_scan(u, delta, a, b, c, d, z, delta_bias).to(u.dtype)


def checked_conv(x, weight, bias=None, activation=None):
    assert activation == "silu"
    assert weight.shape == (x.shape[1], 4)
    assert bias.shape == (x.shape[1],)
    assert x.stride(2) == 1, "channels first, or another kernel runs"
    wide = torch.nn.functional.conv1d(x, weight[:, None].to(x.dtype), bias.to(x.dtype), padding=3, groups=x.shape[1])
    return torch.nn.functional.silu(wide[..., : x.shape[2]])


def checked_norm(x, weight, bias, residual=None, prenorm=False, residual_in_fp32=False, eps=1e-6):
    assert prenorm
    assert residual_in_fp32
    assert bias is None
    total = x.float() if residual is None else residual + x.float()
    normed = total * torch.rsqrt(total.square().mean(-1, keepdim=True) + eps) * weight
    return normed.to(x.dtype), total


def module(name: str, **attributes: object) -> types.ModuleType:
    made = types.ModuleType(name)
    made.__dict__.update(attributes)
    return made


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules with upstream's names, that compute on the CPU."""
    for name in [known for known in sys.modules if known.split(".")[0] in ("mamba_ssm", "causal_conv1d")]:
        monkeypatch.delitem(sys.modules, name)
    parts = {
        "causal_conv1d": module("causal_conv1d", causal_conv1d_fn=checked_conv),
        "mamba_ssm": module("mamba_ssm", __path__=[]),
        "mamba_ssm.ops": module("mamba_ssm.ops", __path__=[]),
        "mamba_ssm.ops.selective_scan_interface": module("scan", selective_scan_fn=checked_scan),
        "mamba_ssm.ops.triton": module("mamba_ssm.ops.triton", __path__=[]),
        "mamba_ssm.ops.triton.layer_norm": module("norm", rms_norm_fn=checked_norm),
    }
    for name, made in parts.items():
        monkeypatch.setitem(sys.modules, name, made)


def test_upstream_s_kernels_get_what_they_demand_and_give_the_same(stand_ins: None) -> None:
    torch.manual_seed(1)
    reference = VisionMamba(SMALL).eval()
    kernels = selective_scan.upstream()
    assert kernels.backend == "mamba_ssm"
    assert kernels.versions["norm"] == "triton"
    theirs = VisionMamba(SMALL, kernels).eval()
    theirs.load_state_dict(reference.state_dict())
    images = torch.randn(2, 3, SMALL.img_size, SMALL.img_size)
    with torch.inference_mode():
        torch.testing.assert_close(theirs(images), reference(images), rtol=1e-4, atol=1e-5)
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(theirs(images), reference(images), rtol=0.1, atol=0.05)


def test_without_triton_the_norm_is_torch_s(stand_ins: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mamba_ssm.ops.triton.layer_norm", None)
    monkeypatch.setitem(sys.modules, "mamba_ssm.ops.triton.layernorm", None)
    kernels = selective_scan.upstream()
    assert kernels.versions["norm"] == "torch"
    assert kernels.add_norm is selective_scan.add_rms_norm


def test_an_installation_without_its_language_models_still_has_the_scan(tmp_path, monkeypatch) -> None:
    for name in [known for known in sys.modules if known.split(".")[0] in ("mamba_ssm", "causal_conv1d")]:
        monkeypatch.delitem(sys.modules, name)
    package = tmp_path / "mamba_ssm"
    (package / "ops").mkdir(parents=True)
    (package / "__init__.py").write_text("import transformers_of_no_version\n")
    (package / "ops" / "__init__.py").write_text("")
    (package / "ops" / "selective_scan_interface.py").write_text("selective_scan_fn = 'the scan'\n")
    (tmp_path / "causal_conv1d.py").write_text("causal_conv1d_fn = 'the convolution'\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert selective_scan._scan_module().selective_scan_fn == "the scan"
        assert selective_scan.upstream().backend == "mamba_ssm"
        (package / "ops" / "selective_scan_interface.py").unlink()
    finally:
        for name in [known for known in sys.modules if known.split(".")[0] in ("mamba_ssm", "causal_conv1d")]:
            del sys.modules[name]
    sys.path_importer_cache.clear()
    with pytest.raises(ImportError):
        selective_scan._scan_module()
    assert "mamba_ssm" not in sys.modules


def test_the_reference_says_why_it_stands_in_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "causal_conv1d", None)
    kernels = selective_scan.choose("cuda:0")
    assert kernels.backend == "reference"
    assert kernels.problem.startswith("ModuleNotFoundError: ")
    assert selective_scan.choose("cpu").problem == ""


def test_the_class_token_stands_in_the_middle() -> None:
    model = VisionMamba(SMALL).eval()
    assert model.middle == 4
    assert SMALL.tokens == 10
    assert VimShape(192).patches // 2 == 98


def test_training_drops_paths_and_inference_does_not() -> None:
    torch.manual_seed(0)
    model = VisionMamba(SMALL)
    images = torch.randn(64, 3, SMALL.img_size, SMALL.img_size)
    rates = [layer.drop_path.rate for layer in model.layers]
    assert rates == [0.0, 0.0]
    assert [round(layer.drop_path.rate, 4) for layer in VisionMamba(VimShape(16, depth=3, img_size=16)).layers] == [
        0.0, 0.0, 0.05,
    ]  # fmt: skip
    branch = torch.ones(1000, 2, 2)
    dropped = model.drop_path.train()(branch)
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.9])
    assert 30 < int((dropped[:, 0, 0] == 0).sum()) < 200
    model.eval()
    with torch.inference_mode():
        assert torch.equal(model(images[:2]), model(images[:2]))


def test_the_reference_gives_what_the_gpu_gave() -> None:
    """Made by `benchmarks/vim_on_cuda.py` on a GPU with mamba-ssm."""
    if not STORED.is_file():
        pytest.skip(f"{STORED.name} has not been recorded yet: benchmarks/vim_on_cuda.py does it on a GPU")
    stored = torch.load(STORED, weights_only=True)
    for case in stored["cases"]:
        model = VisionMamba(VimShape(**case["shape"])).eval()
        model.load_state_dict(case["weights"])
        with torch.inference_mode():
            torch.testing.assert_close(model(case["images"]), case["logits"], rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
def test_both_backends_agree_on_a_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    kernels = selective_scan.choose("cuda")
    if kernels.backend != "mamba_ssm":
        pytest.skip(kernels.problem)
    torch.manual_seed(5)
    shape = VimShape(64, depth=4, img_size=64, classes=16)
    reference = VisionMamba(shape).cuda().eval()
    theirs = VisionMamba(shape, kernels).cuda().eval()
    theirs.load_state_dict(reference.state_dict())
    images = torch.randn(3, 3, 64, 64, device="cuda")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.testing.assert_close(theirs(images), reference(images), rtol=1e-4, atol=1e-4)
    for model in (theirs, reference):
        model(images).square().sum().backward()
    for (name, one), other in zip(theirs.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-3, msg=name)
