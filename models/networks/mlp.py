"""A few linear layers, for a quick check that everything works.

Imports torch; `registry` imports this module when a model is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from ..data import RandomVectors
from ..sizes import MlpShape, mlp_cost
from ..tasks import labelled

if TYPE_CHECKING:
    from ..tasks import Parts


def build(name: str, options: dict[str, Any]) -> Parts:
    """The network, with everything that a step of it needs."""
    shape = MlpShape(depth=options["depth"])
    return labelled(
        Mlp(shape),
        RandomVectors(shape.width, shape.classes, options["seed"]),
        lambda batch, train, each: mlp_cost(shape, batch, train=train, output_bytes_each=each),
    )


class Mlp(nn.Module):
    """Vectors (batch, width) to logits (batch, classes)."""

    def __init__(self, shape: MlpShape) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in shape.layers)

    def forward(self, vectors: Tensor) -> Tensor:
        """ReLU after every layer but the last."""
        for layer in self.layers[:-1]:
            vectors = layer(vectors).relu()
        logits: Tensor = self.layers[-1](vectors)
        return logits
