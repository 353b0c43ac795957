"""Where the recordings are, and traces that many tests share."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tracetui.parsers import open_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.parsers import Trace

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The recordings that stand beside the checkout."""
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there: recordings stand beside the checkout")
    return SHARED


@lru_cache(maxsize=16)
def _open(path: Path) -> Trace:
    return open_path(path, cache=False).traces[0]


@pytest.fixture(scope="session")
def recording(shared_data: Path) -> Callable[[str], Trace]:
    """Opens one recording by its path under ``shared/data``, once per session."""
    return lambda name: _open(shared_data / name)
