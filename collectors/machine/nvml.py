"""Reads the state of GPUs through NVML's Python module, if it is installed; a sample takes microseconds."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tracetui.collectors.machine.smi import MHZ, reasons
from tracetui.parsers.runs.manifest import GpuState

if TYPE_CHECKING:
    from collections.abc import Callable

MODULE = "pynvml"


class Nvml:
    """The opened NVML library; every value that a GPU does not report is null."""

    def __init__(self, module: Any) -> None:
        module.nvmlInit()
        self._nvml = module
        self._gpus = [module.nvmlDeviceGetHandleByIndex(n) for n in range(module.nvmlDeviceGetCount())]

    @classmethod
    def open(cls, load: Callable[[str], Any] = importlib.import_module) -> Nvml | None:
        """The library, or None where it is not installed or finds no driver or GPU."""
        try:
            found = cls(load(MODULE))
        except Exception:  # the module's own errors have no common base besides this one
            return None
        return found if found._gpus else None

    def states(self) -> list[GpuState]:
        """The state of every GPU now."""
        return [self._state(n, gpu) for n, gpu in enumerate(self._gpus)]

    def close(self) -> None:
        """Closes the library."""
        self._ask("nvmlShutdown")

    def _state(self, index: int, gpu: Any) -> GpuState:
        nvml = self._nvml
        sm, memory = getattr(nvml, "NVML_CLOCK_SM", 1), getattr(nvml, "NVML_CLOCK_MEM", 2)
        graphics = getattr(nvml, "NVML_CLOCK_GRAPHICS", 0)
        use = self._ask("nvmlDeviceGetUtilizationRates", gpu)
        held = self._ask("nvmlDeviceGetMemoryInfo", gpu)
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons", gpu)
        if bits is None:
            bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", gpu)
        pstate = self._ask("nvmlDeviceGetPerformanceState", gpu)
        return GpuState(
            index=index,
            clock_hz=_hz(self._ask("nvmlDeviceGetClockInfo", gpu, sm)),
            max_clock_hz=_hz(self._ask("nvmlDeviceGetMaxClockInfo", gpu, sm)),
            applications_clock_hz=_hz(self._ask("nvmlDeviceGetApplicationsClock", gpu, graphics)),
            memory_clock_hz=_hz(self._ask("nvmlDeviceGetClockInfo", gpu, memory)),
            applications_memory_clock_hz=_hz(self._ask("nvmlDeviceGetApplicationsClock", gpu, memory)),
            load_percent=_float(getattr(use, "gpu", None)),
            memory_load_percent=_float(getattr(use, "memory", None)),
            power_mw=self._ask("nvmlDeviceGetPowerUsage", gpu),
            power_limit_mw=self._ask("nvmlDeviceGetEnforcedPowerLimit", gpu),
            temperature_c=_float(self._ask("nvmlDeviceGetTemperature", gpu, getattr(nvml, "NVML_TEMPERATURE_GPU", 0))),
            pstate=f"P{pstate}" if isinstance(pstate, int) and 0 <= pstate < 32 else None,
            throttle_reasons=reasons(bits) if isinstance(bits, int) else None,
            memory_used_bytes=getattr(held, "used", None),
        )

    def _ask(self, name: str, *arguments: Any) -> Any:
        """What a function returns; None if the library, the driver or the GPU does not support it."""
        try:
            return getattr(self._nvml, name)(*arguments)
        except Exception:  # NVMLError of whichever module this is, and AttributeError
            return None


def _hz(mhz: Any) -> int | None:
    return mhz * MHZ if isinstance(mhz, int) else None


def _float(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
