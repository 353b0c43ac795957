"""Calls of nn.Modules as one tree per thread, and the path of each: the names of the modules around it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.attribution.calltree import NONE, CallTree, call_tree, codes_of, dense
from tracetui.analysis.base.remembered import latest
from tracetui.parsers.categories import decode

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.parsers import Trace

PREFIX = "nn.Module: "
_INSTANCE = re.compile(r"_\d+$")


class ModuleTree(Struct, frozen=True):
    """Every module call, and every distinct path among them."""

    calls: CallTree
    path: Ints
    """The path number of each call."""
    parent: Ints
    """For each path, the number of the enclosing path, or -1; a parent's number is smaller than its children's."""
    names: list[str]
    """``Mamba_3`` of each path."""
    paths: list[str]
    """``VisionMamba_0/Block_1/Mixer_1/Mamba_3`` of each path."""

    def path_of(self, host_rows: Ints) -> Ints:
        """The path number of each module row; -1 for no row."""
        node = self.calls.nodes_of(host_rows)
        if not self.path.size:
            return node
        return np.where(node >= 0, self.path[node], NONE)

    def frame(self) -> pl.DataFrame:
        """One row per path number: path, name, class_name."""
        return pl.DataFrame(
            {
                "path": pl.Series(self.paths, dtype=pl.String),
                "name": pl.Series(self.names, dtype=pl.String),
                "class_name": pl.Series([class_name(name) for name in self.names], dtype=pl.String),
            }
        )


def class_name(name: str) -> str:
    """``Mamba`` of ``Mamba_3``."""
    return _INSTANCE.sub("", name)


@latest
def module_tree(trace: Trace) -> ModuleTree:
    """Finds all module calls and gives calls with the same modules around them the same path.

    A module called inside itself (recursion) is one level deeper, so its path names it twice.
    """
    calls = call_tree(trace.host, ("module",))
    name, codes = dense(codes_of(trace.host["name"])[calls.rows])
    texts = [text.removeprefix(PREFIX) for text in decode(codes.astype(np.uint32)).cast(pl.String).to_list()]
    path = np.full(calls.rows.size, NONE, np.int64)
    parents: list[Ints] = []
    names: list[str] = []
    paths: list[str] = []
    level = np.flatnonzero(calls.parent < 0)
    while level.size:
        above = np.where(calls.parent[level] >= 0, path[calls.parent[level]], NONE)
        pair = (above + 1) * max(len(texts), 1) + name[level]
        distinct, first, number = np.unique(pair, return_index=True, return_inverse=True)
        path[level] = number + len(names)
        for at in first.tolist():
            own, up = texts[int(name[level[at]])], int(above[at])
            names.append(own)
            paths.append(own if up < 0 else f"{paths[up]}/{own}")
        parents.append(above[first])
        inside = np.zeros(calls.rows.size + 1, np.bool_)
        inside[level] = True
        level = np.flatnonzero(inside[calls.parent])  # parent -1 reads the spare entry at the end
        del distinct
    parent = np.concatenate(parents) if parents else np.empty(0, np.int64)
    return ModuleTree(calls, path, parent, names, paths)
