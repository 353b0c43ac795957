"""Packages that models need, and commands that install them without replacing the installed torch."""

from __future__ import annotations

import importlib.util
import re
from typing import NamedTuple

from .errors import MissingRequirement

_KEEP_TORCH = """python -c 'import torch; print("torch==" + torch.__version__)' > torch.lock"""
"""A board's torch comes from its vendor's index; pip would replace it by one that does not support its GPU."""


class Need(NamedTuple):
    """One package that a model needs."""

    requirement: str
    """As pip spells it."""
    modules: tuple[str, ...]
    """The modules that are imported; all of them must exist."""
    install: str
    """The command that installs it, pinned so that it can't replace the installed torch."""
    optional: bool = False
    """Whether the model also runs without it, on another backend or with other data."""
    why: str = ""
    """What an optional package is for, or what to watch out for."""

    @property
    def name(self) -> str:
        """The package without its version."""
        return re.split("[<>=]", self.requirement)[0]

    def __str__(self) -> str:
        return self.requirement


TORCH = Need(
    "torch>=1.13",
    ("torch",),
    "python -m pip install torch",
    why="on a Jetson: the wheel built for its JetPack, not the one of PyPI",
)
MAMBA = Need(
    "mamba-ssm==2.3.2.post1",
    ("mamba_ssm", "selective_scan_cuda", "causal_conv1d", "causal_conv1d_cuda"),
    "python -m pip install packaging ninja einops && python -m pip install --no-deps --no-build-isolation"
    " --no-cache-dir causal-conv1d==1.7.0 mamba-ssm==2.3.2.post1",
    optional=True,
    why="its CUDA kernels; without it the reference in plain PyTorch runs",
)
TIMM = Need(
    "timm>=1.0",
    ("timm",),
    f"{_KEEP_TORCH} && python -m pip install -c torch.lock timm",
    why="with a torchvision built for the torch that is there",
)
PILLOW = Need(
    "pillow", ("PIL",), "python -m pip install pillow", optional=True, why="reading images for --data imagefolder:PATH"
)


def require(need: Need, who: str) -> None:
    """Raises MissingRequirement, in one line with the command that helps, unless the package is there.

    Nothing is imported.
    """
    for module in need.modules:
        if not is_there(module):
            raise MissingRequirement(f"{who} needs {need.name}, which is not installed: {need.install}")


def is_there(module: str) -> bool:
    """Whether a module can be imported, as far as this can be told without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
