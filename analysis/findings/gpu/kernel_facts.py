"""What the rules on kernels share: the possible gain, launch configurations, and the distance to a roof."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracetui.analysis.findings.core import gain, program, words
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Evidence, Query
from tracetui.analysis.findings.core.gain import Gain
from tracetui.analysis.findings.declared.rule import Limits
from tracetui.analysis.gpu.occupancy import Occupancy, SmLimits, occupancy, waves
from tracetui.analysis.roofline.peaks import known_device, sm_limits
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_key import function_name
from tracetui.parsers.names.kernel_makers import BATCH_NORM_OF_NCHW, FUSED_BY_COMPILER, INDUCTOR, LIBRARY, TORCH, XLA

MOST = 3
"""How many kernels a rule names at most."""
STREAMING = frozenset({"elementwise", "copy", "reduce", "norm", "softmax", "optimizer"})
"""Categories that read their input once: a cache can't help them, and a few blocks keep memory busy."""


class Shape(Struct, frozen=True):
    """One launch configuration of a kernel."""

    name: str
    grid: int
    """Blocks."""
    threads: int
    """Per block."""
    registers: int | None
    shared: int | None
    total_ns: int
    launches: int
    held: Occupancy
    waves: float | None
    """None if the number of SMs is not known."""


def speedup_ceiling(share: float, factor: float) -> float:
    """Returns by which share the whole shrinks if a part becomes `factor` times as fast (Amdahl; rule K14).

    Args:
        share: the part's share of the whole, 0 to 1.
        factor: the part's speed-up, above 0; infinity for a part that vanishes.
    """
    return share * (1 - 1 / factor)


def stake(facts: Facts, names: list[str], remaining: float) -> Gain:
    """The gain if these kernels took `remaining` of their time, 0 to 1, of which nothing is certain.

    Without a time line the gain is only of the profiled kernel time and promises nothing for the step.
    """
    mine = facts.launches.filter(pl.col("name").cast(pl.String).is_in(names))
    spent = float(mine["duration"].sum() or 0)
    share = spent / facts.kernel_ns if facts.kernel_ns else 0.0
    if not facts.trace.has_timeline:
        saved = 100 * speedup_ceiling(share, 1 / remaining if remaining else float("inf"))
        what = (
            f"{words.percent(100 * share)} of the recorded kernel time × (1 - {remaining:.3g}) = {words.percent(saved)}"
        )
        return gain.unclaimed(f"{what} of it; only a time line tells what the step gains")
    bound = gain.of_kernels(facts, mine["row"].cast(pl.Int64).to_numpy(), factor=remaining)
    return replace(bound, least_ns=0.0, says_sure=False)


def stakes(facts: Facts, remaining: dict[str, float]) -> Gain:
    """The same of kernels that would take each its part of their time; the first is what the gain is told of."""
    (first, part), *rest = remaining.items()
    if not rest or not facts.trace.has_timeline:
        return stake(facts, [first], part)
    names = facts.launches.select("row", name=pl.col("name").cast(pl.String))
    rows = {name: names.filter(pl.col("name") == name)["row"].cast(pl.Int64).to_numpy() for name in remaining}
    bound = gain.of_kernels(facts, rows[first], factor=part, others=[(rows[name], left) for name, left in rest])
    return replace(bound, least_ns=0.0, says_sure=False, work=np.concatenate(list(rows.values())))


def stake_if(counts: bool, facts: Facts, name: str, remaining: float, bottleneck: str) -> Gain:
    """The same of one kernel, claimed only where what is saved is its bottleneck."""
    if counts:
        return stake(facts, [name], remaining)
    return gain.unclaimed(f"{bottleneck} is not known to be the bottleneck, so no gain is claimed")


def large(
    facts: Facts, rows: Iterable[dict[str, Any]], limits: Limits, name: str = "name", *, sort: bool = True
) -> Iterator[tuple[dict[str, Any], float]]:
    """Rows of kernels with at least `share_percent` of the kernel time, and that share; the largest first if sorted."""
    shares = dict(facts.kernels.select("name", pl.col("percent").fill_null(0.0)).iter_rows())
    for row in sorted(rows, key=lambda row: -shares.get(row[name], 0.0)) if sort else rows:
        if (share := shares.get(row[name], 0.0)) >= limits.share_percent:
            yield row, share


def limits_of_sm(facts: Facts) -> tuple[SmLimits | None, int | None]:
    """What an SM can hold, and the number of SMs; None if the GPU is not known."""
    others = [trace for trace in facts.run.traces if trace is not facts.trace]
    device = known_device([facts.trace, *others], facts.manifest)
    return (None, None) if device is None else (sm_limits(device), device.sm_count)


def shapes(facts: Facts) -> list[Shape] | None:
    """Every launch configuration with a known residency; None if the GPU or all block sizes are unknown.

    If registers or shared memory were not recorded, residency is the most that the other limits allow. Kernels of
    collectives are left out, because they use few SMs on purpose.
    """
    sm, count = limits_of_sm(facts)
    if sm is None:
        return None
    known = facts.launches.filter(pl.col("block").is_not_null())
    if not known.height:
        return None
    keys = ("name", "grid", "block", "registers", "shared_memory")
    table = known.group_by(keys, maintain_order=True).agg(total=pl.col("duration").sum(), launches=pl.len())
    found = []
    for row in table.iter_rows(named=True):
        threads, blocks = math.prod(row["block"]), math.prod(row["grid"]) if row["grid"] else 0
        held = occupancy(threads, row["registers"], row["shared_memory"], sm)
        if held is None or kernel_names.category(str(row["name"])) == "communication":
            continue
        filled = waves(blocks, held, count) if count and blocks else None
        found.append(
            Shape(str(row["name"]), blocks, threads, row["registers"], row["shared_memory"], row["total"] or 0,
                  row["launches"], held, filled)
        )  # fmt: skip
    return found


def limiter_text(shape: Shape, sm_warps: int) -> str:
    """What prevents more resident blocks: ``block slots: 16 blocks of 1 warp fill all 16 slots, 16 of 48 warps``."""
    held = shape.held
    each = words.things(held.warps // held.blocks, "warp")
    resident = f"{words.things(held.blocks, 'block')} of {each} = {held.warps} of {sm_warps} warps"
    reasons = []
    for name in held.limiters:
        if name == "blocks":
            reasons.append(f"block slots: an SM has {held.limits['blocks']}, whatever the blocks' size")
        elif name == "registers":
            reasons.append(f"registers: {shape.registers} per thread")
        elif name == "shared memory":
            reasons.append(f"shared memory: {words.size(shape.shared or 0)} per block")
        else:
            reasons.append(f"warps: blocks of {each} leave a rest")
    return f"{' and '.join(reasons)}; {resident}"


LEAST_ATTAINED = 5.0
"""A compiler's kernel that attains less of its roof, in percent, does more than the shapes of its arguments tell."""


def attained(facts: Facts) -> dict[str, tuple[float, str, str]]:
    """Share of the roof that each kernel attains, which roof, and the source; counters take precedence over shapes."""
    found: dict[str, tuple[float, str, str]] = {}
    rows = facts.roofline.points.select("name", "attained_percent", "roof", "origin").iter_rows()
    for name, percent, roof, origin in rows:
        by_shapes = origin != "counters" and FUSED_BY_COMPILER.search(name) is not None
        if by_shapes and percent is not None and percent < LEAST_ATTAINED:
            continue
        if percent is not None and roof is not None and (name not in found or origin == "counters"):
            found[name] = (percent, roof, origin)
    return found


def share_of(name: str, percent: float) -> Evidence:
    """Evidence for a kernel's share of the kernel time."""
    return Evidence("share of the kernel time", percent, "%", Query("kernels", row=name))


def bounds(facts: Facts) -> dict[str, str]:
    """Nsight Compute's class of each kernel that it measured."""
    measured = facts.counters
    if measured is None:
        return {}
    return dict(measured.kernels.select("name", "bound").drop_nulls().iter_rows())


def short(name: str) -> str:
    """A kernel's name as findings print it."""
    return kernel_names.short_name(name)


class Instead(Struct, frozen=True):
    """What the user of a kernel that somebody else wrote can do about it."""

    act: str
    """With ``{}`` for the kernel's name; without one nothing is known to help, and no gain is promised."""
    advice: str


def instead(facts: Facts, name: str) -> Instead | None:
    """What to do about a kernel of a library, of PyTorch or of a compiler; None of the program's own."""
    kind = kernel_names.category(name)
    if not (kind == "attention" or any(maker.search(name) for maker in (LIBRARY, TORCH, XLA))):
        return None
    if INDUCTOR.search(name):
        return Instead("Tune {}", 'torch.compile(mode="max-autotune") tries other tilings of it.')
    if kind == "attention":
        how = facts.program.say(
            pytorch="torch.nn.attention.sdpa_kernel chooses another backend (flash, cuDNN, memory-efficient).",
            jax="jax.nn.dot_product_attention(implementation=…) chooses another kernel.",
            other="Another library's fused attention may be faster.",
        )
        return Instead("Try another attention than {}", f"{how} Head sizes of 64 and 128 are the fast ones.")
    if kernel_names.is_product(name):
        for_convolutions = facts.program.say(
            pytorch=" Of convolutions also torch.backends.cudnn.benchmark = True and channels_last.", other=""
        )
        return Instead(
            "Give {} other shapes",
            "A library chooses the kernel by shapes, types and layout: sizes that are multiples of 8, a larger batch, a"
            " lower precision." + (for_convolutions if kind == "conv" else ""),
        )
    if kind in STREAMING and facts.program.framework == "pytorch" and TORCH.search(name):
        if program.is_compiled(facts):
            how = "It is not in what torch.compile compiled: look for graph breaks."
        else:
            how = "torch.compile writes a kernel of its own for these shapes, fused with its neighbours."
        layout = " Batch norms are faster in channels_last." if BATCH_NORM_OF_NCHW.search(name) else ""
        return Instead("Let torch.compile replace {}", how + layout)
    return Instead("", "It is a library's: only another algorithm, shape or type in what calls it changes it.")


def ncu_command(name: str) -> str:
    """The command that measures a kernel: `ncu -k` matches the function's name without namespaces and arguments."""
    base = function_name(name).base or name.partition("(")[0]
    pattern = shlex.quote(f"regex:^{re.escape(base)}$")
    return f"ncu --set full -k {pattern} -c 5 --csv --page raw --log-file counters.csv PROGRAM"


def reread(facts: Facts) -> list[tuple[str, float, float, float, float]]:
    """(kernel, DRAM over compulsory bytes, DRAM bytes, compulsory bytes, duration), means of measured launches.

    A measured launch is compared with the kernel's work at the same grid and block, if all such launches do equal work.
    """
    line = facts.roofline
    if not line.launches.height or not line.work.height:
        return []
    known: dict[tuple[str, tuple[int, ...], tuple[int, ...]], set[float]] = {}
    for row in line.work.filter(pl.col("grid").is_not_null() & pl.col("bytes").is_not_null()).iter_rows(named=True):
        known.setdefault((row["name"], tuple(row["grid"]), tuple(row["block"])), set()).add(row["bytes"])
    means = dict(facts.kernels.select("name", "mean_ns").iter_rows())
    sums: dict[str, list[float]] = {}
    for row in line.launches.iter_rows(named=True):
        duration = row["duration_ns"] or means.get(row["name"])
        if row["bytes"] is None or row["grid"] is None or duration is None:
            continue
        needed = known.get((row["name"], tuple(row["grid"]), tuple(row["block"] or ())), set())
        if len(needed) == 1 and min(needed) > 0:
            total = sums.setdefault(row["name"], [0.0, 0.0, 0.0, 0.0])
            for place, value in enumerate((row["bytes"], min(needed), duration, 1.0)):
                total[place] += value
    return [
        (name, moved / needed, moved / count, needed / count, duration / count)
        for name, (moved, needed, duration, count) in sums.items()
    ]
