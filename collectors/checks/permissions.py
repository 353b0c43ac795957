"""Checks whether this user may read performance counters and record kernels."""

from __future__ import annotations

import os
import re

from tracetui.collectors.checks.check import FAIL, OK, SKIPPED, WARN, Check, Machine
from tracetui.collectors.machine.probe import version_numbers

GROUP = "Permissions"
CAP_SYS_ADMIN, CAP_PERFMON = 21, 38
PERFMON_DRIVER = (565,)
"""The first driver version for which CAP_PERFMON is enough."""
UNLOCK = (
    "echo options nvidia NVreg_RestrictProfilingToAdminUsers=0 | sudo tee /etc/modprobe.d/nvidia-profiling.conf, "
    "then reboot; or run ncu with sudo"
)
NODES = ("dev/nvhost-prof-ctx-gpu", "dev/nvhost-prof-dev-gpu", "dev/nvgpu/igpu0/prof*")
"""The device nodes that CUPTI opens on a Tegra since CUDA 13."""
SUDO = 'sudo -E env PATH="$PATH" LD_LIBRARY_PATH="$LD_LIBRARY_PATH" tracetui profile ...'


def checks(machine: Machine) -> list[Check]:
    """Checks access to counters (ncu), and on a Jetson also to kernels (torch, nsys)."""
    if not machine.has_gpu and machine.driver is None:
        return [Check(GROUP, "counters", SKIPPED, "no NVIDIA GPU")]
    if machine.is_jetson:
        return [_kernels_of_a_jetson(machine), _counters_of_a_jetson(machine)]
    return [_counters(machine)]


def _counters(machine: Machine) -> Check:
    params = machine.probe.text("proc/driver/nvidia/params")
    match = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", params or "", re.MULTILINE)
    if match and match[1] == "0":
        return Check(GROUP, "counters", OK, "open to every user")
    held = machine.probe.capabilities
    if held >> CAP_SYS_ADMIN & 1:
        return Check(GROUP, "counters", OK, "allowed: CAP_SYS_ADMIN" + (" (root)" if machine.is_root else ""))
    if held >> CAP_PERFMON & 1 and version_numbers(machine.driver) >= PERFMON_DRIVER:
        return Check(GROUP, "counters", OK, "allowed: CAP_PERFMON")
    if match is None:
        return Check(GROUP, "counters", SKIPPED, "the driver does not say (/proc/driver/nvidia/params); try ncu itself")
    if machine.is_root:
        said = "root without CAP_SYS_ADMIN, as in a container: ncu ends with ERR_NVGPUCTRPERM"
        return Check(GROUP, "counters", FAIL, said, "start the container with --cap-add SYS_ADMIN")
    return Check(GROUP, "counters", FAIL, "for administrators only: ncu ends with ERR_NVGPUCTRPERM", UNLOCK)


def _kernels_of_a_jetson(machine: Machine) -> Check:
    if machine.is_root:
        return Check(GROUP, "kernels", OK, "root: CUPTI records them")
    major = machine.cuda_major
    if major is None or major < 13:
        said = f"CUDA {major or 12} on a Jetson records kernels for root only; for others they are silently missing"
        return Check(GROUP, "kernels", FAIL, said, SUDO)
    nodes = [node for pattern in NODES for node in machine.probe.glob(pattern)]
    closed = [node for node in nodes if not os.access(node, os.R_OK | os.W_OK)]
    if closed or not nodes:
        names = " ".join("/" + str(node.relative_to(machine.probe.root)) for node in closed)
        said = f"no access to {names}" if closed else "the profiler's device nodes are not there"
        remedy = f"sudo chmod a+rw {names}" if closed else SUDO
        return Check(GROUP, "kernels", FAIL, f"{said}: CUPTI may crash the program", remedy)
    return Check(GROUP, "kernels", OK, "the profiler's device nodes are open to this user")


def _counters_of_a_jetson(machine: Machine) -> Check:
    if machine.is_root:
        return Check(GROUP, "counters", OK, "root: ncu may read them")
    return Check(GROUP, "counters", WARN, "ncu needs root on a Jetson", SUDO)
