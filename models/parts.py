"""What a family of networks provides for a workload."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from .sizes.flops import Cost


@dataclass
class Parts:
    """What a family of models provides; `Workload` builds its step from it."""

    model: Any
    """The nn.Module, on the CPU. If it has `ranges`, the workload sets them."""
    backend: str
    """``mamba_ssm``, ``reference``, ``torch``, ``timm`` or ``user``."""
    sample: Callable[[int], Any]
    """Makes the random sample with a given number, on the host: (inputs, labels), or whatever the model takes."""
    forward: Callable[[Any, Any], Any]
    """(model, batch) -> output."""
    loss: Callable[[Any, Any], Any]
    """(output, batch) -> a scalar to minimise."""
    cost: Callable[[int, bool, int], Cost | None]
    """(samples, train, bytes of a number of the output) -> the work of a step; null if it is unknown."""
    dataset: Any = None
    """Samples from files, if they were asked for."""
    whole_batch: Callable[[int], Any] | None = None
    """Makes a whole batch, for a model whose samples can't be stacked."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the packages that the backend uses."""
    notes: list[str] = field(default_factory=list)
    """What the user should know before the run."""
