"""What a family of networks brings to a workload."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from .sizes.flops import Cost


@dataclass
class Parts:
    """What a family of models brings; `Workload` makes a step of it."""

    model: Any
    """The nn.Module, on the CPU. Its `ranges`, where it has some, are set by the workload."""
    backend: str
    """``mamba_ssm``, ``reference``, ``torch``, ``timm`` or ``user``."""
    sample: Callable[[int], Any]
    """The random sample of a number, on the host: (inputs, labels), or whatever the model takes."""
    forward: Callable[[Any, Any], Any]
    """(model, batch) -> output."""
    loss: Callable[[Any, Any], Any]
    """(output, batch) -> a scalar to minimise."""
    cost: Callable[[int, bool, int], Cost | None]
    """(samples, train, bytes of a number of the output) -> the work of a step; null where it can't be known."""
    dataset: Any = None
    """Samples from files, where those were asked for."""
    whole_batch: Callable[[int], Any] | None = None
    """Makes a batch at once, for a model whose samples can't be stacked."""
    versions: dict[str, str] = field(default_factory=dict)
    """Of the packages behind the backend."""
    notes: list[str] = field(default_factory=list)
    """What the person should know before the run."""
