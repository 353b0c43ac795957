"""Orders of rows by whole numbers that are no times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracetui.analysis.base.intervals import Ints


def stable_order(label: NDArray[np.signedinteger[Any]]) -> Ints:
    """A stable argsort of whole numbers from 0; fast where they fit in 16 bits."""
    if label.size and int(label.max()) < 1 << 16:
        return np.argsort(label.astype(np.uint16), kind="stable")
    return np.argsort(label, kind="stable")
