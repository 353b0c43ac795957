"""Asks torch about itself and the device, for the part of run.json that only the profiled Python knows."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any


def facts() -> dict[str, Any]:
    """All of it, under the keys of the child's result."""
    return {"software": software(), "settings": settings(), "devices": devices()}


def software() -> dict[str, Any]:
    """Versions of Python, of torch and of what torch was built with; null for what is missing."""
    import torch

    return {
        "python": platform.python_version(),
        "python_executable": sys.executable,
        "torch": torch.__version__,
        "torch_git": getattr(torch.version, "git_version", None),
        "cuda_runtime": getattr(torch.version, "cuda", None),
        "cudnn": _text(_quietly(lambda: torch.backends.cudnn.version())),
        "triton": _version("triton"),
        "timm": _version("timm"),
        "mamba_ssm": _version("mamba_ssm"),
        "causal_conv1d": _version("causal_conv1d"),
    }


def settings() -> dict[str, Any]:
    """Torch's settings that affect speed, under the keys of `workload` in run.json."""
    import torch

    return {
        "tf32_matmul": _quietly(lambda: torch.backends.cuda.matmul.allow_tf32),
        "tf32_cudnn": _quietly(lambda: torch.backends.cudnn.allow_tf32),
        "cudnn_benchmark": _quietly(lambda: torch.backends.cudnn.benchmark),
        "deterministic": _quietly(torch.are_deterministic_algorithms_enabled),
        "threads": _quietly(torch.get_num_threads),
    }


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


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _quietly(ask: Any) -> Any:
    """The answer, or null if this version of torch lacks the function."""
    try:
        return ask()
    except (AttributeError, RuntimeError):
        return None
