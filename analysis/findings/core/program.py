"""What several rules ask about a program: its GPU, compilation, graph replays, and how to run it again."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.base import names
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.base.remembered import kept
from tracetui.parsers.names.kernel_makers import INDUCTOR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.findings.core.facts import Facts

_OF_THE_FOLDER = {"--output": True, "--sweep": True, "--repeats": True, "--no-open": False}
"""Options on the output folder, which now exists, and on what follows the recording; whether they take a value."""
_INTEGRATED = re.compile(r"\b(orin|xavier|tegra|thor|jetson)\b|^(nvgpu|gb10\b)", re.IGNORECASE)
_INTEGRATED_CAPABILITIES = frozenset({"5.3", "6.2", "7.2", "8.7", "11.0"})
_AMD = re.compile(r"\b(amd|radeon|instinct|gfx\d\w*)\b", re.IGNORECASE)
_COMPILED_CALL = re.compile(r"^Torch-Compiled Region|^CompiledFunction")
BY_GRAPHS_PERCENT = 50
"""With more kernels than this from CUDA graphs, launching as a graph is no advice."""
_GRAPH_LAUNCH = re.compile(r"GraphLaunch")


def is_integrated(facts: Facts) -> bool:
    """Whether the GPU shares the host's memory, as on a Jetson: from run.json, else from its name and capability."""
    if facts.manifest is not None:
        told = [device.integrated for device in facts.manifest.device if device.integrated is not None]
        if told:
            return any(told)
    return any(
        _INTEGRATED.search(device.name or "") or device.compute_capability in _INTEGRATED_CAPABILITIES
        for device in facts.trace.info.devices
    )


def is_nvidia(facts: Facts) -> bool:
    """Whether nothing points to another vendor's GPU: ROCm traces give AMD's architectures as capabilities."""
    devices = facts.trace.info.devices
    if any(device.architecture or _AMD.search(device.name or "") for device in devices):
        return False
    if any(device.warp_size not in (None, 32) for device in devices):
        return False
    return not facts.api["name"].str.starts_with("hip").any()


def capability(facts: Facts) -> str | None:
    """The compute capability of all GPUs that ran kernels, such as ``9.0``; None if unknown or not the same."""
    if not is_nvidia(facts):
        return None
    used = set(facts.launches["device"].drop_nulls().unique().to_list())
    info = facts.trace.info
    described = [info.device(number) for number in used] if used else info.devices
    told = {device.compute_capability for device in described if device is not None}
    if facts.manifest is not None and not told - {None}:
        told = {device.compute_capability for device in facts.manifest.device}
    only = next(iter(told)) if len(told) == 1 else None
    return only if only and re.fullmatch(r"\d+\.\d+", only) else None


@kept
def is_compiled(facts: Facts) -> bool:
    """Whether torch.compile made kernels of this run, or a compiler made all of them."""
    if facts.trace.info.kind == "jax":
        return True
    if facts.kernels.height and facts.kernels["name"].str.contains(INDUCTOR.pattern).any():
        return True
    host = facts.trace.host
    calls = names.matching(host["name"], lambda name: _COMPILED_CALL.search(name) is not None)
    return bool(calls.any() and (calls & of_kinds(host["kind"], "operator", "annotation")).any())


@kept
def graph_percent(facts: Facts) -> float:
    """The percentage of kernels that CUDA graphs launched."""
    launched = facts.launches
    if not launched.height:
        return 0.0
    called = facts.trace.host["name"].gather(launched["launch"]).cast(pl.String)
    by_graph = called.str.contains(_GRAPH_LAUNCH.pattern).fill_null(value=False)
    by_graph = by_graph | launched["graph_node"].is_not_null() | (launched["kind"] == "graph")
    return 100 * int(by_graph.sum()) / launched.height


def span(facts: Facts) -> str:
    """The base of shares of time, in words: the step; without steps, the time that the GPU's work spans."""
    if facts.sel.steps.height:
        return "the step"
    return "the recorded time" if facts.sel.work_span is None else "the time from first to last GPU work"


def per(facts: Facts) -> str:
    """The base of amounts, in words: ``per step``, or ``in the recording`` if there are no steps."""
    return "per step" if facts.sel.steps.height else "in the recording"


def rerun(facts: Facts, *options: str) -> str:
    """The command that made the run, with other options; empty if it is unknown or does not take our options."""
    manifest = facts.manifest
    if manifest is None or "profile" not in manifest.identity.command or "--" in manifest.identity.command:
        return ""
    given = manifest.workload.options
    axes = [word.partition("=")[0] for before, word in pairwise(manifest.identity.command) if before == "--sweep"]
    point = [text for axis in axes if axis in given for text in (f"--{axis.replace('_', '-')}", str(given[axis]))]
    before = _without(manifest.identity.command[1:], _OF_THE_FOLDER | _takes_value(point))
    return shlex.join(["tracetui", *_without([*before, *point], _takes_value(options)), *options])


def _takes_value(words: Sequence[str]) -> dict[str, bool]:
    """Of each option of a command line, whether a value follows."""
    after = pairwise([*words, ""])
    return {word: bool(value) and not value.startswith("--") for word, value in after if word[:2] == "--"}


def _without(words: Sequence[str], options: dict[str, bool]) -> list[str]:
    """A command line without these options, which are said anew or have done their part, and without their values."""
    kept: list[str] = []
    skip = False
    for word in words:
        name, given, _ = word.partition("=")
        # options may be abbreviated as long as they stay unique: --out
        same = [option for option in options if len(name) > len("--x") and option.startswith(name)]
        if not (skip or same):
            kept.append(word)
        skip = bool(same) and not given and options[same[0]]
    return kept
