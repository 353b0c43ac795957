"""The two ways to compute Vision Mamba's convolution, scan and norm: upstream's CUDA kernels, and plain PyTorch.

The reference states what the kernels compute (Gu and Dao, Mamba, 2023, algorithm 2), per channel d, state n, token l::

    delta = softplus(delta + bias)
    h[l]  = exp(delta[l] * A) * h[l - 1] + delta[l] * B[l] * u[l]
    y[l]  = (sum over n of C[l] * h[l] + D * u[l]) * silu(z[l])

It goes through the tokens one by one (one fused multiply-add each) and does everything else for `CHUNK` tokens at a
time, so that the state of all tokens, `state` times the activations, is never in memory at once. Always in fp32.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
import types
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

CHUNK = 64
"""How many tokens' states are held at once; more would not be faster."""


@dataclass(frozen=True)
class Kernels:
    """The functions for parts that need special kernels. All tensors of a sequence are (batch, channels, tokens)."""

    backend: str
    """``mamba_ssm`` or ``reference``."""
    conv: Callable[[Tensor, Tensor, Tensor], Tensor]
    """(x, weight of (channels, taps), bias) -> silu(causal convolution)."""
    scan: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
    """(u, delta, A, B, C, D, z, bias of delta) -> y; A is (channels, state), B and C are (batch, state, tokens)."""
    add_norm: Callable[[Tensor, Tensor | None, Tensor, float], tuple[Tensor, Tensor]]
    """(x, residual, weight, eps) -> (RMS norm of x + residual in x's type, x + residual in fp32)."""
    versions: dict[str, str]
    """Versions of the packages that it uses."""
    problem: str = ""
    """Why this is not the backend that was asked for."""


def causal_conv(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A causal depthwise convolution, and silu; shapes as in `Kernels.conv`."""
    channels, taps = weight.shape
    wide = functional.conv1d(x, weight.unsqueeze(1), bias, padding=taps - 1, groups=channels)
    return functional.silu(wide[..., : x.shape[-1]])


def selective_scan(
    u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor, z: Tensor, bias: Tensor
) -> Tensor:
    """The scan as the module's docstring defines it; shapes as in `Kernels.scan`, the result in u's type."""
    with torch.autocast(device_type=u.device.type, enabled=False):
        step = functional.softplus(delta.float() + bias.float()[:, None])
        wide = u.float()
        # (tokens, batch, channels): one token's numbers lie together.
        steps, inputs = step.permute(2, 0, 1), (step * wide).permute(2, 0, 1)
        into, out_of = b.float().permute(2, 0, 1), c.float().permute(2, 0, 1)
        state = wide.new_zeros(u.shape[0], u.shape[1], a.shape[1])
        pieces = []
        for first in range(0, u.shape[2], CHUNK):
            here = slice(first, first + CHUNK)
            decay = torch.exp(steps[here].unsqueeze(-1) * a.float())
            states = []
            for decayed, added in zip(
                decay.unbind(0), (inputs[here].unsqueeze(-1) * into[here].unsqueeze(2)).unbind(0)
            ):
                state = torch.addcmul(added, decayed, state)
                states.append(state)
            pieces.append(torch.matmul(torch.stack(states), out_of[here].unsqueeze(-1)).squeeze(-1))
        y = torch.cat(pieces).permute(1, 2, 0) + wide * d.float()[:, None]
        return (y * functional.silu(z.float())).to(u.dtype)


def add_rms_norm(x: Tensor, residual: Tensor | None, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """As `Kernels.add_norm`."""
    total = x.float() if residual is None else x.float() + residual.float()
    scaled = total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + eps)
    return (scaled * weight.float()).to(x.dtype), total


REFERENCE = Kernels("reference", causal_conv, selective_scan, add_rms_norm, {})


def choose(device: str) -> Kernels:
    """Upstream's kernels on CUDA if they can be imported, otherwise the reference.

    If CUDA was asked for, the reference's `problem` says why.
    """
    if not device.startswith("cuda"):
        return REFERENCE
    try:
        return upstream()
    except Exception as error:  # extensions built for another torch raise whatever they like
        why = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        return Kernels("reference", causal_conv, selective_scan, add_rms_norm, {}, problem=why)


def upstream() -> Kernels:
    """The kernels of mamba-ssm and causal-conv1d.

    Raises:
        ImportError: one of them, or something they need, is missing.
    """
    conv_fn = importlib.import_module("causal_conv1d").causal_conv1d_fn
    scan_fn = _scan_module().selective_scan_fn
    norm_fn = _norm_function()

    def conv(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        found: Tensor = conv_fn(x, weight, bias, activation="silu")
        return found

    def scan(u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor, z: Tensor, bias: Tensor) -> Tensor:
        y: Tensor = scan_fn(u, delta, a, b, c, d, z=z, delta_bias=bias.float(), delta_softplus=True)
        return y

    def add_norm(x: Tensor, residual: Tensor | None, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        normed, total = norm_fn(x, weight, None, residual=residual, prenorm=True, residual_in_fp32=True, eps=eps)
        # Without a residual, upstream returns x unchanged.
        return normed, total.float()

    versions = {name: found for name in ("mamba_ssm", "causal_conv1d", "triton") if (found := _version(name))}
    versions["norm"] = "torch" if norm_fn is None else "triton"
    return Kernels("mamba_ssm", conv, scan, add_norm if norm_fn else add_rms_norm, versions)


def _scan_module() -> Any:
    """``mamba_ssm.ops.selective_scan_interface``.

    ``import mamba_ssm`` also imports its language models, which need transformers and more; an installation without
    those still has the scan, so the package's own ``__init__`` is skipped if it fails.
    """
    name = "mamba_ssm.ops.selective_scan_interface"
    try:
        return importlib.import_module(name)
    except ImportError:
        if "mamba_ssm" in sys.modules:
            raise
    found = importlib.machinery.PathFinder.find_spec("mamba_ssm")
    if found is None or found.submodule_search_locations is None:
        raise ImportError("No module named 'mamba_ssm'")
    bare = types.ModuleType("mamba_ssm")
    bare.__path__ = list(found.submodule_search_locations)
    bare.__spec__ = found
    for stale in [known for known in sys.modules if known.startswith("mamba_ssm.")]:
        del sys.modules[stale]
    sys.modules["mamba_ssm"] = bare
    try:
        return importlib.import_module(name)
    except ImportError:
        del sys.modules["mamba_ssm"]
        raise


def _norm_function() -> Any:
    """Upstream's fused add and norm in triton, under its name in mamba-ssm 2 or 1; none without triton."""
    for name in ("mamba_ssm.ops.triton.layer_norm", "mamba_ssm.ops.triton.layernorm"):
        with suppress(ImportError, AttributeError):
            return importlib.import_module(name).rms_norm_fn
    return None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
