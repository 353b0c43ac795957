"""The kind of a kernel: its category, where that is not too wide to say what a variant of a program adds."""

from __future__ import annotations

import re
from functools import lru_cache

from tracetui.parsers.names import kernel_names

_FINER: dict[str, tuple[tuple[str, re.Pattern[str]], ...]] = {
    category: tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in patterns.items())
    for category, patterns in {
        "other": {
            "loss": r"loss|criterion|nll",
            "top-k": r"top_?k|kthvalue|radixselect|sbtopk|mbtopk",
            "sort": r"sort",
            "embedding": r"embedding|_embs?_|embs_",
            "gather/scatter": r"gather|scatter|index|(^|_)take(_|$)|(?<![a-z])put_kernel",
        },
        "copy": {"concatenate": r"^cat|_cat_|catarray", "gather/scatter": r"index_copy"},
    }.items()
}
"""Of categories that are too wide, the kinds in them; the first that fits."""


@lru_cache(1 << 16)
def kind_of(name: str) -> str:
    """The kernel's category, of indexing, selection, sorting and concatenation what it is: ``top-k``, ``sort``."""
    category = kernel_names.category(name)
    if category not in _FINER:
        return category
    short = kernel_names.short_name(name)
    return next((kind for kind, pattern in _FINER[category] if pattern.search(short)), category)
