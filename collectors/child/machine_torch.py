"""Asks torch about itself and the device, for the part of run.json that only the profiled Python knows."""

from __future__ import annotations

import gc
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any


def facts(found: dict[str, Any] | None = None) -> dict[str, Any]:
    """All of it, under the keys of the child's result; with the settings as they were found while steps ran."""
    return {"software": software(), "settings": settings() if found is None else found, "devices": devices()}


def software() -> dict[str, Any]:
    """Versions of Python, of torch and of what torch was built with; null for what is missing."""
    import torch

    cudnn = quietly(lambda: torch.backends.cudnn.version())
    return {
        "python": platform.python_version(),
        "python_executable": sys.executable,
        "torch": torch.__version__,
        "torch_git": getattr(torch.version, "git_version", None),
        "cuda_runtime": getattr(torch.version, "cuda", None),
        "cudnn": None if cudnn is None else str(cudnn),
        "triton": _version("triton"),
        "timm": _version("timm"),
        "mamba_ssm": _version("mamba_ssm"),
        "causal_conv1d": _version("causal_conv1d"),
    }


def settings() -> dict[str, Any]:
    """Torch's settings that affect speed, under the keys of `workload` in run.json."""
    import torch

    return {
        "tf32_matmul": quietly(lambda: torch.backends.cuda.matmul.allow_tf32),
        "tf32_cudnn": quietly(lambda: torch.backends.cudnn.allow_tf32),
        "cudnn_benchmark": quietly(lambda: torch.backends.cudnn.benchmark),
        "deterministic": quietly(torch.are_deterministic_algorithms_enabled),
        "threads": quietly(torch.get_num_threads),
        "modes": modes(),
    }


def modes() -> dict[str, Any]:
    """What may slow down every step of this process, as it is now in this thread (`parsers.runs.manifest.Modes`)."""
    import torch

    cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
    return {
        "anomaly": quietly(lambda: torch.is_anomaly_enabled()),
        "fills_memory": quietly(lambda: torch.utils.deterministic.fill_uninitialized_memory),
        "cudnn_deterministic": quietly(lambda: torch.backends.cudnn.deterministic),
        "float32_matmul": quietly(lambda: torch.get_float32_matmul_precision()),
        "torch_profiler": quietly(lambda: torch.autograd._profiler_enabled()),
        "memory_history": quietly(lambda: bool(torch._C._cuda_isHistoryEnabled())) if cuda else None,
        "sync_debug": quietly(lambda: bool(torch.cuda.get_sync_debug_mode())) if cuda else None,
        "python_trace": sys.gettrace() is not None or _monitored(0, 1),
        "python_profile": sys.getprofile() is not None or _monitored(2),
        "gc_enabled": gc.isenabled(),
        "gc_thresholds": list(gc.get_threshold()),
        "gc_frozen": gc.get_freeze_count(),
        "launch_blocking": _is_set("CUDA_LAUNCH_BLOCKING"),
        "uncached_memory": _is_set("PYTORCH_NO_CUDA_MEMORY_CACHING"),
        "cpp_stacktraces": _is_set("TORCH_SHOW_CPP_STACKTRACES"),
        "compile_disabled": _is_set("TORCH_COMPILE_DISABLE") or _is_set("TORCHDYNAMO_DISABLE"),
        "distributed_debug": os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL",
        "nccl_blocking": _is_set("TORCH_NCCL_BLOCKING_WAIT") or _is_set("NCCL_BLOCKING_WAIT"),
        "nccl_p2p_disabled": _is_set("NCCL_P2P_DISABLE"),
        "max_connections": _number("CUDA_DEVICE_MAX_CONNECTIONS"),
    }


def _is_set(variable: str) -> bool:
    """Whether a switch in the environment is on."""
    return os.environ.get(variable, "").lower() not in ("", "0", "n", "no", "off", "false")


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _monitored(*tools: int) -> bool:
    """Whether Python 3.12 or newer calls one of these tools: 0 is a debugger, 1 coverage, 2 a profiler."""
    monitoring = getattr(sys, "monitoring", None)
    return monitoring is not None and any(monitoring.get_tool(tool) and monitoring.get_events(tool) for tool in tools)


def devices() -> list[dict[str, Any]]:
    """The CUDA devices that this process sees."""
    import torch

    found: list[dict[str, Any]] = []
    if not torch.cuda.is_available():
        return found
    for number in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(number)
        found.append(
            {
                "index": number,
                "name": facts.name,
                "compute_capability": f"{facts.major}.{facts.minor}",
                "sm_count": facts.multi_processor_count,
                "memory_bytes": facts.total_memory,
                "uuid": str(getattr(facts, "uuid", "")) or None,
            }
        )
    return found


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def quietly(ask: Any) -> Any:
    """The answer, or null if this version of torch lacks the function."""
    try:
        return ask()
    except (AttributeError, RuntimeError):
        return None


def instances(of: type) -> list[Any]:
    """All objects of a class and of those derived from it, found without touching any other.

    ``gc.get_objects`` would for a moment hold a tuple that another thread, such as a loader's, is still filling, and
    Python then refuses to finish it (SystemError in the program); only Python 3.8 leaves no other way.
    """
    classes: dict[type, None] = {}
    waiting = [of]
    while waiting:
        each = waiting.pop()
        if each not in classes:
            classes[each] = None
            waiting.extend(type.__subclasses__(each))
    holders = gc.get_referrers(*classes) if sys.version_info >= (3, 9) else gc.get_objects()
    # by type(), since isinstance asks an object for its class and a proxy may do anything then
    return [each for each in holders if issubclass(type(each), of)]
