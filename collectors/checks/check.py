"""The result of one check, and the facts that all checks share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tracetui.collectors.machine.probe import Probe, version_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tracetui.parsers.runs.manifest import Device, PowerState

OK, WARN, FAIL, SKIPPED = "ok", "warn", "fail", "skipped"
STATUSES = (OK, WARN, FAIL, SKIPPED)


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    group: str
    name: str
    status: str
    """`ok`; `warn` (it works, but worse or with less); `fail` (something asked for can't work); `skipped`."""
    message: str
    """One line: what was found, or what is wrong."""
    remedy: str = ""
    """The command or setting that fixes it."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """The terminal, file or pipe that the output is connected to."""

    is_terminal: bool
    columns: int
    lines: int


@dataclass(frozen=True, slots=True)
class TargetPython:
    """What the Python that runs workloads reports about itself; null if it does not report it."""

    path: str
    answered: bool
    error: str = ""
    """Why it did not answer."""
    version: str | None = None
    torch: str | None = None
    torch_error: str = ""
    cuda_runtime: str | None = None
    cuda_available: bool | None = None
    cuda_error: str = ""
    cudnn: str | None = None
    compute_capability: str | None = None
    sm_count: int | None = None
    architectures: tuple[str, ...] = ()
    """The GPU architectures that this torch has kernels for: `sm_90`."""
    cupti: str | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    """Versions of the packages that models need, by name; ``error: …`` where one is there but can't be imported."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything that the checks look at; collected once."""

    probe: Probe
    environment: Mapping[str, str]
    terminal: Terminal
    output: Path
    is_root: bool
    is_jetson: bool
    devices: tuple[Device, ...]
    power: PowerState
    driver: str | None
    cuda_of_driver: str | None
    l4t: str | None
    jetpack: str | None
    python: TargetPython

    @property
    def has_gpu(self) -> bool:
        """An NVIDIA GPU that answers."""
        return bool(self.devices)

    @property
    def cuda_major(self) -> int | None:
        """Version of the CUDA that would record traces: torch's, else the driver's, else the JetPack's."""
        for version in (self.python.cuda_runtime, self.cuda_of_driver):
            if numbers := version_numbers(version):
                return numbers[0]
        release = version_numbers(self.l4t)
        return (13 if release[0] >= 38 else 12 if release[0] >= 36 else 11) if release else None
