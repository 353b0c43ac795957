"""Whether the names of a recording's kernels can tell of tensor cores at all: only those of known GPUs do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.base import api_names, names
from tracetui.analysis.base.conventions import TRACETUI
from tracetui.analysis.base.remembered import kept

if TYPE_CHECKING:
    from tracetui.analysis.base.conventions import Conventions
    from tracetui.parsers import Trace

_MAKERS = re.compile(
    r"nvidia|tesla|geforce|quadro|\brtx|orin|xavier|thor|\bamd\b|radeon|instinct|\b[AHLBTV]\d{1,4}\b|\bMI\d",
    re.IGNORECASE,
)
_RUNTIMES = ("CUDA", "HIP")
_WORDS = re.compile(r"^(?!void )[^<(]* [^<(]*$")
"""Work of accelerators that are no GPUs is named in a few words: ``add_11 Cmpt Exec``."""


def tensor_cores_known(trace: Trace, conventions: Conventions = TRACETUI) -> bool:
    """Whether kernel names tell of tensor cores: on NVIDIA's and AMD's GPUs; elsewhere that they don't is no 0 %.

    A recording that describes no device is judged by its runtime, then by its names. Other tools' definitions look at
    names alone.
    """
    return conventions.name != TRACETUI.name or _known(trace)


@kept
def _known(trace: Trace) -> bool:
    used = set(trace.device["device"].drop_nulls().unique().to_list())
    described = [device for device in trace.info.devices if device.name or device.compute_capability]
    devices = [device for device in described if device.id in used] or described
    if any(device.compute_capability or device.architecture or _MAKERS.search(device.name or "") for device in devices):
        return True
    calls = trace.host.filter(pl.col("kind").is_in(["runtime", "driver"]))["name"].unique().cast(pl.String)
    if api_names.runtime(calls) in _RUNTIMES:
        return True
    kernels = trace.device.filter(pl.col("kind") == "kernel")["name"]
    return not devices and not names.matching(kernels, lambda name: _WORDS.search(name) is not None).any()
