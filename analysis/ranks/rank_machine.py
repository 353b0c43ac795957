"""The machine and the GPUs of one rank, as the run.json of its job has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.parsers.runs.manifest import Machine

if TYPE_CHECKING:
    from collections.abc import Collection

    from tracetui.parsers.runs.manifest import RunManifest


def machine_of(manifest: RunManifest, rank: int | None) -> Machine | None:
    """The machine that a rank ran on: that of the run where ranks are not told apart or there is no other.

    None where the rank ran on a machine that run.json says nothing of.
    """
    first = Machine(manifest.identity.host, manifest.software, manifest.device, manifest.power)
    own = next((one for one in manifest.ranks if one.rank == rank), None)
    if not manifest.machines or own is None or own.host is None or own.host == first.host:
        return first
    return next((one for one in manifest.machines if one.host == own.host), None)


def gpus_of(manifest: RunManifest, rank: int | None, devices: Collection[int]) -> frozenset[int]:
    """Which of its machine's GPUs a rank used, by their numbers there.

    Args:
        manifest: of the job.
        rank: which one.
        devices: the numbers that its recording has, which a process that sees few GPUs may count otherwise; they hold
            where run.json does not name the GPU.
    """
    own = next((one for one in manifest.ranks if one.rank == rank), None)
    machine = machine_of(manifest, rank)
    if own is None or own.gpu_uuid is None or machine is None:
        return frozenset(devices)
    named = frozenset(gpu.index for gpu in machine.device if gpu.uuid == own.gpu_uuid and gpu.index is not None)
    return named or frozenset(devices)
