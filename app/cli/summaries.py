"""Whether a path is a folder of summaries of ranks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SUMMARIES = ".tracetui-rank"
"""`analysis.ranks.files.stored.SUFFIX`."""


def is_folder_of_summaries(path: Path) -> bool:
    """Whether a folder has summaries of ranks and no recordings; what tells is imported only where names say so."""
    if not path.is_dir() or not any(name.endswith(SUMMARIES) for name in os.listdir(path)):  # noqa: PTH208
        return False
    from tracetui.app.cli.commands.ranks import is_summaries

    return is_summaries(path)
