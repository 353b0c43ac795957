"""What a step's time is split into, and what tells whether a kernel uses tensor cores: its name, or counters."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from tracetui.parsers.names import kernel_names

CATEGORIES = ("kernel", "communication", "memcpy", "memset", "runtime", "dataloader", "cpu_exec", "other")
"""Time that several categories claim belongs to the first of them."""
GPU_CATEGORIES = CATEGORIES[:4]
"""Those in which a GPU works."""


class Conventions(Struct, frozen=True):
    """Asked for each kernel's name."""

    uses_tensor_cores: Callable[[str], bool] = kernel_names.uses_tensor_cores
    tensor_cores_unclear: Callable[[str], bool] = kernel_names.tensor_cores_unclear
    """Whether that can't be told."""


TRACETUI = Conventions()
"""Names alone."""
