"""Makes small runs for tests of rules: a Chrome trace of steps, launches and copies; times in µs."""

import json
from pathlib import Path
from typing import Any

from judged import find

from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Abstention, Finding, Findings
from tracetui.analysis.scope import Scope
from tracetui.parsers import Run, Trace, open_path
from tracetui.parsers.runs.manifest import RunManifest

H200 = {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132, "warpSize": 32}
V100 = {"id": 0, "name": "Tesla V100-SXM2-16GB", "computeMajor": 7, "computeMinor": 0, "numSms": 80, "warpSize": 32}
ORIN = {"id": 0, "name": "Orin", "computeMajor": 8, "computeMinor": 7, "numSms": 8, "warpSize": 32}
SGEMM = "ampere_sgemm_128x64_tn"
HGEMM = "nvjet_sm90_hsh_128x256_64x4_1x2_h_bz_coopA_NNT"
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
    "(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 8, false, false>(float*, float const*)"
LOG_SOFTMAX = SOFTMAX.replace("8, false", "8, true")
TO_HALF = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::float16_copy_kernel_cuda(at::TensorIteratorBase&)"
    "::{lambda(float)#1}, std::array<char*, 2ul> >(int)"
)
FLIP = (
    "void at::native::index_elementwise_kernel<128, 4, at::native::flip_kernel_impl<at::native::OpaqueType<4> >"
    "(at::TensorIterator&)::{lambda(int)#1}>(long)"
)


class Made:
    """Events of a trace; a call is as long as it is given, a kernel runs when it is said to."""

    def __init__(self, device: dict[str, Any] | None = None) -> None:
        self.events: list[dict[str, Any]] = []
        self.device = H200 if device is None else device
        self._correlation = 0

    def host(self, category: str, name: str, start: float, end: float, thread: int = 1, **args: Any) -> None:
        """Any host event: cpu_op, user_annotation, cuda_runtime."""
        self._event(category, name, start, end, {"pid": 1, "tid": thread}, args)

    def step(self, number: int, start: float, end: float) -> None:
        self.host("user_annotation", f"ProfilerStep#{number}", start, end)

    def launch(self, name, call, runs, *, api="cudaLaunchKernel", kind="kernel", stream=7, thread=1, **args) -> None:
        """A call and the kernel (or gpu_memcpy) that it launches."""
        self._correlation += 1
        known = {"correlation": self._correlation}
        self._event("cuda_runtime", api, *call, {"pid": 1, "tid": thread}, known)
        lane = {"stream": stream, "device": 0}
        self._event(kind, name, *runs, {"pid": 0, "tid": stream}, known | lane | args)

    def flow(self, number: int, forward: float, backward: float, thread: int = 2) -> None:
        """Says that an operator of the first thread led to one of another thread, which computes its gradients."""
        for phase, at, of in (("s", forward, 1), ("f", backward, thread)):
            row = {"ph": phase, "cat": "fwdbwd", "name": "fwdbwd", "id": number, "pid": 1, "tid": of, "ts": at}
            self.events.append(row | ({"bp": "e"} if phase == "f" else {}))

    def replay(self, name: str, call: tuple[float, float], runs: list[tuple[float, float]]) -> None:
        """A CUDA graph: one call, many kernels."""
        self._correlation += 1
        self._event("cuda_runtime", "cudaGraphLaunch", *call, {"pid": 1, "tid": 1}, {"correlation": self._correlation})
        for run in runs:
            args = {"correlation": self._correlation, "stream": 7, "device": 0}
            self._event("kernel", name, *run, {"pid": 0, "tid": 7}, args)

    def _event(self, category, name, start, end, lane, args) -> None:
        row = {"ph": "X", "cat": category, "name": name, "ts": start, "dur": round(end - start, 3)}
        self.events.append(row | lane | {"args": args})

    def trace(self, folder: Path) -> Trace:
        path = folder / "made.json"
        path.write_text(json.dumps({"deviceProperties": [self.device], "traceEvents": self.events}))
        return open_path(path, cache=False).traces[0]

    def facts(self, folder: Path, manifest: RunManifest | None = None) -> Facts:
        return facts_of(self.trace(folder), manifest)


def facts_of(trace: Trace, manifest: RunManifest | None = None, scope: Scope | None = None) -> Facts:
    """What rules look at, of a run of one trace."""
    return Facts(Run(trace.source.path, (trace,), manifest=manifest), scope=scope)


def look(rule: str, facts: Facts) -> Findings:
    """What one rule says."""
    return find(facts, rules={rule: all_rules()[rule]})


def finding(rule: str, facts: Facts) -> Finding:
    """The one finding of a rule."""
    said = look(rule, facts)
    (found,) = (*said.found, *(each.finding for each in said.suppressed if each.finding.aside))
    return found


def silent(rule: str, facts: Facts) -> bool:
    """Whether the rule looked and found nothing at all, not even what could gain little."""
    said = look(rule, facts)
    return said.checked == (rule,) and not said.found and not said.suppressed


def missing(rule: str, facts: Facts) -> Abstention:
    """The inputs that the rule is missing."""
    (abstained,) = look(rule, facts).abstained
    return abstained
