"""Checks Python, torch, CUDA, the packages that models need, and NVIDIA's profilers."""

from __future__ import annotations

import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tracetui.collectors.checks.check import FAIL, OK, SKIPPED, WARN, Check, Machine
from tracetui.collectors.machine.probe import find_tool, nsys_in_ncu, tool_version, version_numbers
from tracetui.models.needs import MAMBA, TIMM, TORCH

GROUP, PROFILERS = "Python and torch", "Profilers"
OLDEST_PYTHON = (3, 8)
OLDEST_NSYS = (2022,)
BAD_CUPTI = (
    (
        (12, 4, 127),
        (12, 5, 40),
        "CUDA 12.4 Update 1 has been seen to record no kernels",
        "install CUDA 12.5 Update 1 or later if kernels are missing",
    ),
    (
        (11, 1),
        (11, 2),
        "CUDA 11.1 crashes beside a compat driver on JetPack 5",
        "use the CUPTI of the board's own CUDA",
    ),
)
"""(first bad, first good, what is wrong with it, what to do)"""
VOLTA = "7.0"
LAST_NCU_FOR_VOLTA = (2025, 2)


def checks(machine: Machine) -> list[Check]:
    """Checks the installed software."""
    found = [_own(), _python(machine)]
    if machine.python.answered:
        found += [_torch(machine), _cuda(machine), _driver(machine), _cupti(machine), _mamba(machine), _timm(machine)]
    return [*found, _nsys(machine), _ncu(machine)]


def _own() -> Check:
    try:
        own = version("tracetui")
    except PackageNotFoundError:
        own = "not installed"
    return Check(GROUP, "tracetui", OK, f"{own} on Python {platform.python_version()}")


def _python(machine: Machine) -> Check:
    python = machine.python
    if not python.answered:
        return Check(
            GROUP, "python", FAIL, f"{python.path} does not answer: {python.error}", "give another with --python"
        )
    if version_numbers(python.version) < OLDEST_PYTHON:
        said = f"{python.version} at {python.path}: too old to run workloads"
        return Check(GROUP, "python", FAIL, said, "give one of 3.8 or later with --python")
    return Check(GROUP, "python", OK, f"{python.version} at {python.path}")


def _torch(machine: Machine) -> Check:
    python = machine.python
    if python.torch is not None:
        return Check(GROUP, "torch", OK, python.torch)
    remedy = TORCH.install.replace("python -m", f"{python.path} -m", 1)
    if machine.is_jetson:
        remedy = f"install the wheel of the Jetson AI Lab index for JetPack {machine.jetpack or 'of this board'}"
    if python.torch_error:
        return Check(GROUP, "torch", FAIL, f"can't be imported: {python.torch_error}", remedy)
    needed = "needed to profile" if machine.has_gpu else "needed to profile, not to open traces"
    return Check(GROUP, "torch", FAIL if machine.has_gpu else WARN, f"not installed: {needed}", remedy)


def _cuda(machine: Machine) -> Check:
    python, device = machine.python, machine.devices[0] if machine.devices else None
    if python.torch is None:
        return Check(GROUP, "CUDA in torch", SKIPPED, "no torch")
    if python.cuda_runtime is None:
        if device is None:
            return Check(GROUP, "CUDA in torch", SKIPPED, "torch for the CPU, and no NVIDIA GPU")
        said = f"this torch is built for the CPU only, and {device.name or 'the GPU'} stays idle"
        return Check(GROUP, "CUDA in torch", FAIL, said, TORCH.why if machine.is_jetson else "install torch with CUDA")
    if not python.cuda_available:
        if device is None:
            return Check(GROUP, "CUDA in torch", SKIPPED, f"CUDA {python.cuda_runtime}, but no NVIDIA GPU")
        said = f"CUDA {python.cuda_runtime} finds no GPU: {python.cuda_error or 'no reason given'}"
        remedy = (
            "sudo usermod -aG video,render $USER, then log in anew" if machine.is_jetson else "nvidia-smi says more"
        )
        return Check(GROUP, "CUDA in torch", FAIL, said, remedy)
    wanted = (python.compute_capability or "").replace(".", "")
    if wanted and python.architectures and not _has_kernels(python.architectures, wanted):
        said = f"this torch has no kernels for sm_{wanted}, only {', '.join(python.architectures)}"
        return Check(GROUP, "CUDA in torch", FAIL, said, "install a torch built for this GPU")
    cudnn = f", cuDNN {python.cudnn}" if python.cudnn else ""
    sms = f", {python.sm_count} SMs" if python.sm_count else ""
    return Check(GROUP, "CUDA in torch", OK, f"{python.cuda_runtime}{cudnn}, sm_{wanted or '?'}{sms}")


def _has_kernels(architectures: tuple[str, ...], wanted: str) -> bool:
    """Whether code built for these architectures runs on a GPU: same one, older of its family, or compiled from PTX."""
    for name in architectures:
        built = re.fullmatch(r"(?P<kind>sm|compute)_(?P<number>\d+)(?P<only>[a-z]?)", name)
        if built is None:
            continue
        number = int(built["number"])
        if number == int(wanted) or (built["kind"] == "compute" and number <= int(wanted)):
            return True
        if not built["only"] and number // 10 == int(wanted) // 10 and number <= int(wanted):
            return True
    return False


def _driver(machine: Machine) -> Check:
    runtime, supported = version_numbers(machine.python.cuda_runtime), version_numbers(machine.cuda_of_driver)
    if not machine.has_gpu and machine.driver is None:
        if _has_nvidia_card(machine):
            said = "an NVIDIA GPU is in this machine, but its driver is not loaded"
            return Check(GROUP, "driver", FAIL, said, "install the driver, then sudo modprobe nvidia")
        return Check(GROUP, "driver", SKIPPED, "no NVIDIA GPU in this machine")
    text = machine.driver or "unknown version"
    if not runtime or not supported:
        return Check(GROUP, "driver", OK, text)
    text = f"{text}, for CUDA up to {machine.cuda_of_driver}"
    if runtime[0] > supported[0]:
        said = f"{text}, older than the {machine.python.cuda_runtime} of torch"
        return Check(GROUP, "driver", FAIL, said, f"update the driver, or install torch for CUDA {supported[0]}")
    if runtime > supported:
        said = f"{text}, older than torch's {machine.python.cuda_runtime}: runs, but some kernels are compiled at start"
        return Check(GROUP, "driver", WARN, said, "update the driver")
    return Check(GROUP, "driver", OK, text)


def _has_nvidia_card(machine: Machine) -> bool:
    """Whether the PCI bus has an NVIDIA display or 3D controller."""
    for device in machine.probe.glob("sys/bus/pci/devices/*"):
        is_nvidia = machine.probe.text(device / "vendor") == "0x10de"
        if is_nvidia and (machine.probe.text(device / "class") or "").startswith("0x03"):
            return True
    return False


def _cupti(machine: Machine) -> Check:
    found = machine.python.cupti
    numbers = version_numbers(found)
    for first, good, wrong, remedy in BAD_CUPTI:
        if numbers and first <= numbers < good:
            return Check(GROUP, "CUPTI", WARN, f"{found}: {wrong}", remedy)
    return Check(GROUP, "CUPTI", OK, found) if found else Check(GROUP, "CUPTI", SKIPPED, "its version is not known")


def _mamba(machine: Machine) -> Check:
    said = {name: machine.python.packages.get(name) for name in ("mamba_ssm", "causal_conv1d")}
    broken = next(
        (f"{name} can't be imported: {text[7:]}" for name, text in said.items() if text and text[:6] == "error:"), ""
    )
    if machine.python.torch is None:
        return Check(GROUP, "mamba backend", SKIPPED, "no torch")
    if all(said.values()) and not broken:
        text = f"mamba-ssm {said['mamba_ssm']}, causal-conv1d {said['causal_conv1d']}"
        return Check(GROUP, "mamba backend", OK, text)
    if not machine.has_gpu:
        return Check(
            GROUP, "mamba backend", SKIPPED, "the reference in plain PyTorch; no NVIDIA GPU to run the other on"
        )
    if machine.l4t and version_numbers(machine.l4t)[0] < 36:
        text = "the reference in plain PyTorch: mamba-ssm can't be installed on JetPack 5"
        return Check(GROUP, "mamba backend", WARN, text, "vim models: their numbers say nothing about this board")
    missing = broken or f"{' and '.join(name for name, text in said.items() if not text)} not installed"
    text = f"{missing}: vim models run on the reference, whose times say nothing about this GPU"
    return Check(GROUP, "mamba backend", WARN, text, MAMBA.install)


def _timm(machine: Machine) -> Check:
    found = machine.python.packages.get("timm")
    if found and not found.startswith("error:"):
        return Check(GROUP, "timm", OK, found)
    if machine.python.torch is None:
        return Check(GROUP, "timm", SKIPPED, "no torch")
    said = f"can't be imported: {found[7:]}" if found else "not installed: timm:NAME and topk_deit need it"
    return Check(GROUP, "timm", WARN, said, TIMM.install)


def _nsys(machine: Machine) -> Check:
    tool, found = _profiler(machine, "nsys", "nsight-systems")
    if isinstance(found, Check):
        return found
    if version_numbers(found) < OLDEST_NSYS:
        said = f"{found} at {tool}: too old, it writes .qdrep and lacks options"
        return Check(PROFILERS, "nsys", WARN, said, _install(machine, "nsight-systems"))
    return Check(PROFILERS, "nsys", OK, f"{found} at {tool}")


def _ncu(machine: Machine) -> Check:
    tool, found = _profiler(machine, "ncu", "nsight-compute")
    if isinstance(found, Check):
        return found
    volta = any(device.compute_capability == VOLTA for device in machine.devices)
    if volta and version_numbers(found)[:2] > LAST_NCU_FOR_VOLTA:
        said = f"{found} at {tool} no longer profiles Volta"
        return Check(PROFILERS, "ncu", FAIL, said, "install Nsight Compute 2025.2")
    return Check(PROFILERS, "ncu", OK, f"{found} at {tool}")


def _profiler(machine: Machine, name: str, package: str) -> tuple[Path | None, str | Check]:
    """Where the program is, and its version or what keeps it from being used."""
    tool, install = find_tool(machine.probe, name, machine.environment.get("PATH", "")), _install(machine, package)
    if tool is not None:
        found = tool_version(machine.probe, tool)
        return tool, found or Check(PROFILERS, name, FAIL, f"{tool} does not start", install)
    if not machine.has_gpu:
        return None, Check(PROFILERS, name, SKIPPED, "not found; no NVIDIA GPU to profile")
    said = f"not found: --tool {name} can't be used"
    if name == "nsys" and (part := nsys_in_ncu(machine.probe)):
        said = f"only the part in Nsight Compute ({part}), which leaves its reports unfinished"
    return None, Check(PROFILERS, name, WARN, said, install)


def _install(machine: Machine, name: str) -> str:
    if machine.is_jetson:
        return "sudo apt install nvidia-jetpack"
    numbers = version_numbers(machine.cuda_of_driver)
    return f"sudo apt install cuda-{name}-{numbers[0]}-{numbers[1]}" if len(numbers) > 1 else f"install NVIDIA {name}"
