"""Vision Mamba (Zhu et al., 2024): bidirectional v2, class token in the middle, ÷2; parameters named as in hustvl/Vim.

Imports torch; `registry` imports this module when a model is built.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..options import check_patch
from ..sizes import CHANNELS, VIM_WIDTHS, VimShape, vim_cost
from ..tasks import image_task
from .selective_scan import REFERENCE, Kernels, choose

if TYPE_CHECKING:
    from ..tasks import Parts

EPS = 1e-5
DROP_PATH = 0.1
"""Share of samples that skip the last block in training; the share falls linearly towards earlier blocks."""


def shape_of(name: str, options: dict[str, Any]) -> VimShape:
    """The sizes of a built-in model under these options; the variant s8 has patches that overlap by half.

    Raises:
        WrongOption: a patch larger than the image.
    """
    check_patch(options)
    patch = options["patch"]
    return VimShape(
        VIM_WIDTHS[name],
        depth=options["depth"],
        img_size=options["img_size"],
        patch=patch,
        stride=max(patch // 2, 1) if name.endswith("_s8") else patch,
    )


def build(name: str, options: dict[str, Any]) -> Parts:
    """The network, with everything that a step of it needs."""
    shape = shape_of(name, options)
    kernels = choose(options["device"])
    notes = []
    if kernels.problem:
        notes.append(
            "mamba-ssm and causal-conv1d can't be used, so the reference in plain PyTorch runs: many times slower, and"
            f" another mix of kernels ({kernels.problem})"
        )
    elif kernels.backend == "reference" and shape.depth * shape.tokens > 1000:
        notes.append(
            "on a CPU the scan is the reference in plain PyTorch, token by token; --img-size 64 --depth 2 is faster"
        )
    return image_task(
        VisionMamba(shape, kernels),
        options,
        backend=kernels.backend,
        versions=kernels.versions,
        notes=notes,
        cost=lambda batch, train, each: vim_cost(shape, batch, train=train, output_bytes_each=each),
    )


class VisionMamba(nn.Module):
    """Images (batch, 3, size, size) to logits (batch, classes)."""

    def __init__(self, shape: VimShape, kernels: Kernels = REFERENCE) -> None:
        super().__init__()
        self.middle = shape.patches // 2
        self.patch_embed = PatchEmbed(shape)
        self.cls_token = nn.Parameter(torch.empty(1, 1, shape.width))
        self.pos_embed = nn.Parameter(torch.empty(1, shape.tokens, shape.width))
        rates = [0.0, *(DROP_PATH * n / max(shape.depth - 1, 1) for n in range(shape.depth))]
        self.layers = nn.ModuleList(Block(shape, kernels, rates[n]) for n in range(shape.depth))
        self.drop_path = DropPath(DROP_PATH)
        self.norm_f = AddNorm(shape.width, kernels)
        self.head = nn.Linear(shape.width, shape.classes)
        for parameter in (self.cls_token, self.pos_embed, self.head.weight):
            nn.init.trunc_normal_(parameter, std=0.02)
        nn.init.zeros_(self.head.bias)

    def forward(self, images: Tensor) -> Tensor:
        """The logits of the token in the middle."""
        patches = self.patch_embed(images)
        token = self.cls_token.expand(patches.shape[0], -1, -1)
        hidden = torch.cat([patches[:, : self.middle], token, patches[:, self.middle :]], 1) + self.pos_embed
        residual = None
        for layer in self.layers:
            hidden, residual = layer(hidden, residual)
        hidden, _ = self.norm_f(self.drop_path(hidden), residual)
        logits: Tensor = self.head(hidden[:, self.middle])
        return logits


class PatchEmbed(nn.Module):
    """Images to a row of patches (batch, patches, width)."""

    def __init__(self, shape: VimShape) -> None:
        super().__init__()
        self.proj = nn.Conv2d(CHANNELS, shape.width, shape.patch, shape.stride)
        nn.init.normal_(self.proj.weight, std=(CHANNELS * shape.patch**2) ** -0.5)
        nn.init.zeros_(self.proj.bias)

    def forward(self, images: Tensor) -> Tensor:
        """The patches row by row."""
        found: Tensor = self.proj(images).flatten(2).transpose(1, 2)
        return found


class Block(nn.Module):
    """Add, norm and mixer; the residual is kept separately in fp32."""

    def __init__(self, shape: VimShape, kernels: Kernels, drop: float) -> None:
        super().__init__()
        self.mixer = Mamba(shape, kernels)
        self.norm = AddNorm(shape.width, kernels)
        self.drop_path = DropPath(drop)

    def forward(self, hidden: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        """(batch, tokens, width) twice, in and out."""
        normed, residual = self.norm(hidden if residual is None else self.drop_path(hidden), residual)
        return self.mixer(normed), residual


class AddNorm(nn.Module):
    """RMS norm of the sum with the residual."""

    def __init__(self, width: int, kernels: Kernels) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.kernels = kernels

    def forward(self, hidden: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        """The norm, and the sum."""
        return self.kernels.add_norm(hidden, residual, self.weight, EPS)


class DropPath(nn.Module):
    """In training, sets whole samples of a branch to zero and scales up the others in return."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, branch: Tensor) -> Tensor:
        """Outside training, returns the branch unchanged."""
        if not (self.training and self.rate):
            return branch
        kept = branch.new_empty(branch.shape[0], *[1] * (branch.dim() - 1)).bernoulli_(1 - self.rate)
        return branch * kept / (1 - self.rate)


class Mamba(nn.Module):
    """Scans both directions over one projection; the backward direction has its own parameters (``_b``)."""

    def __init__(self, shape: VimShape, kernels: Kernels) -> None:
        super().__init__()
        inner = shape.inner
        self.in_proj = ChannelsFirst(shape.width, 2 * inner)
        for end in ("", "_b"):
            setattr(self, f"conv1d{end}", CausalConv(inner, shape.conv, kernels))
            setattr(self, f"x_proj{end}", nn.Linear(inner, shape.dt_rank + 2 * shape.state, bias=False))
            setattr(self, f"dt_proj{end}", StepSize(shape.dt_rank, inner))
            decay = torch.log(torch.arange(1, shape.state + 1, dtype=torch.float32)).repeat(inner, 1)
            setattr(self, "A_log" if not end else "A_b_log", nn.Parameter(decay))
            setattr(self, f"D{end}", nn.Parameter(torch.ones(inner)))
        self.scan = Scan(kernels)
        self.out_proj = nn.Linear(inner, shape.width, bias=False)
        nn.init.kaiming_uniform_(self.out_proj.weight, a=math.sqrt(5))
        with torch.no_grad():
            self.out_proj.weight /= math.sqrt(shape.depth)
        self.sizes = (shape.dt_rank, shape.state, shape.state)

    def forward(self, hidden: Tensor) -> Tensor:
        """(batch, tokens, width) to the same."""
        both = self.in_proj(hidden)
        forth = self._direction(both, self.conv1d, self.x_proj, self.dt_proj, self.A_log, self.D)
        back = self._direction(both.flip([-1]), self.conv1d_b, self.x_proj_b, self.dt_proj_b, self.A_b_log, self.D_b)
        mixed: Tensor = self.out_proj((forth + back.flip([-1])).transpose(1, 2) / 2)
        return mixed

    def _direction(self, both: Tensor, conv: Any, x_proj: Any, dt_proj: Any, decay: Tensor, skip: Tensor) -> Tensor:
        """One direction: (batch, 2 * inner, tokens) to (batch, inner, tokens)."""
        x, z = both.chunk(2, 1)
        x = conv(x)
        batch, inner, tokens = x.shape
        projected = x_proj(x.transpose(1, 2).reshape(batch * tokens, inner))
        low, into, out_of = projected.split(self.sizes, 1)
        delta = dt_proj(low).view(inner, batch, tokens).transpose(0, 1)
        into, out_of = (part.view(batch, tokens, -1).transpose(1, 2).contiguous() for part in (into, out_of))
        return self.scan(x, delta, -torch.exp(decay.float()), into, out_of, skip.float(), z, dt_proj.bias.float())


class ChannelsFirst(nn.Linear):
    """A projection with the memory layout that the scan needs: (batch, outputs, tokens), tokens contiguous."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """(batch, tokens, inputs) to (batch, outputs, tokens)."""
        batch, tokens, width = hidden.shape
        flat = self.weight @ hidden.reshape(batch * tokens, width).t()
        return flat.view(-1, batch, tokens).transpose(0, 1)


class StepSize(nn.Linear):
    """From the low rank to the step sizes, (rows, rank) to (inner, rows); its bias is added in the scan."""

    def __init__(self, rank: int, inner: int) -> None:
        super().__init__(rank, inner)
        nn.init.uniform_(self.weight, -(rank**-0.5), rank**-0.5)
        # softplus of the bias is spread evenly, on a log scale, over 0.001 to 0.1
        steps = torch.exp(torch.rand(inner) * math.log(100) + math.log(0.001))
        with torch.no_grad():
            self.bias.copy_(steps + torch.log(-torch.expm1(-steps)))

    def forward(self, low: Tensor) -> Tensor:
        """Without the bias."""
        return self.weight @ low.t()


class CausalConv(nn.Conv1d):
    """A causal depthwise convolution, and silu."""

    def __init__(self, channels: int, taps: int, kernels: Kernels) -> None:
        super().__init__(channels, channels, taps, groups=channels, padding=taps - 1)
        self.kernels = kernels

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, tokens) to the same."""
        return self.kernels.conv(x, self.weight.squeeze(1), self.bias)


class Scan(nn.Module):
    """The selective scan, as a module so that profilers show its name."""

    def __init__(self, kernels: Kernels) -> None:
        super().__init__()
        self.kernels = kernels

    def forward(self, *tensors: Tensor) -> Tensor:
        """As `Kernels.scan`."""
        return self.kernels.scan(*tensors)
