"""Makes changes of a program from outside while it runs, and looks at what its first steps do and yield.

Everything that looks is taken away after the first steps, before any step is timed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import random
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from .changes import (
    BY_NAME,
    attention_off,
    can_fuse,
    convolves,
    copies_to_gpu,
    cores,
    has_convolutions,
    is_compiled,
    precision,
    waits,
)
from .hand import Hand, is_programs, replace

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_STEPS = 3
"""Steps whose results are kept and compared, unless the parent asks for more; the program is looked at in the same
ones."""
SEED = 0
MOST_NUMBERS, MOST_OF_ONE = 8192, 64
"""Numbers that are kept of all parameters, and of one tensor."""


def when_imported(name: str, then: Callable[[], None]) -> None:
    """Has this done as soon as the program has imported a module; at once if it is there.

    What a program sets before it imports torch (threads, allocator) must work as it does without us.
    """
    if name in sys.modules:
        then()
        return

    class Finder:
        """Finds the module as it would be found, and does something after it has run."""

        def find_spec(self, wanted: str, path: Any = None, target: Any = None) -> Any:
            if wanted != name:
                return None
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.loader is not None:
                run = spec.loader.exec_module

                def run_and_then(module: Any) -> None:
                    run(module)
                    then()

                spec.loader.exec_module = run_and_then  # type: ignore[method-assign]
            return spec

    sys.meta_path.insert(0, Finder())


class Outside:
    """The changes of one run of the program, and what its first steps told."""

    def __init__(self, spec: dict[str, Any]) -> None:
        """Drops variables of the environment; `install` does the rest.

        Args:
            spec: ``changes`` (names), ``switched`` (those that are only prepared, to be switched on and off later),
                ``shake`` (relative size of a disturbance of the weights, or null), ``ends`` (whether the program ends
                after its first steps) and ``first_steps`` (how many that are).
        """
        self._spec = spec
        self._first: int = spec.get("first_steps", FIRST_STEPS)
        self._hands = {name: Hand() for name in spec["changes"]}
        self.switches = {name: Hand(on=False) for name in spec.get("switched", ())}
        """The changes that can be switched on, once the first steps are over."""
        self.modules: list[Any] = []
        """The program's outermost modules, kept where there are such."""
        self._undo: list[Callable[[], None]] = []
        self._steps = 0
        self._depth = 0
        self._seen: dict[int, Any] = {}
        self._optimizers: list[Any] = []
        self._losses: list[float] = []
        self._outputs: list[float] = []
        self._start: list[Any] = []
        self._moved: list[float] = []
        self._gc_begun, self._gc_s, self._since = 0.0, 0.0, 0.0
        self._facts: dict[str, Any] = {
            "steps": 0, "cuda": False, "blocking": False, "uncached": False, "attention_off": [], "anomaly": False,
            "precision": "highest", "convolutions": False, "images_nchw": False, "modules": 0, "compiled": False,
            "fp32": False, "autocast": False, "seeded": False, "calls": {}, "loaders": [], "optimizers": [],
            "deterministic": False, "benchmark": False, "threads": 0, "cores": cores(), "epsilon": 0.0,
        }  # fmt: skip
        for name, hand in self._hands.items():
            for variable in BY_NAME[name].drops:
                _drop(variable, hand)

    def install(self) -> None:
        """Makes the changes and begins to look; torch has just been imported."""
        import torch
        from torch.optim import optimizer

        _seed()
        self._look(torch, "manual_seed", self._seeded)
        for name, hand in (*self._hands.items(), *self.switches.items()):
            hand.optimizers, hand.draws_alike = self._optimizers, bool(self._spec["ends"])
            BY_NAME[name].make(hand)
        # on top of the changes, so that facts are of the program's own arguments
        self._look(torch.nn.Module, "__call__", self._called)
        self._look(torch.autograd, "backward", self._backward)
        self._watch_calls()
        self._undo.append(optimizer.register_optimizer_step_pre_hook(lambda one, *_: self._before_step(one)).remove)
        gc.callbacks.append(self._collected)

    def _look(self, owner: Any, name: str, around: Callable[[Any, Any, Any], Any]) -> None:
        self._undo.insert(0, replace(owner, name, around))

    def stepped(self) -> bool:
        """Told of each of the program's steps; whether the first steps are over now."""
        self._steps += 1
        self._settle()
        if self._steps < self._first:
            return False
        self._learn()
        for undo in self._undo:
            undo()
        self._moved = self._moves()
        self._start.clear()
        if self.switches:
            self.modules = list(self._seen.values())
        self._seen.clear()
        for hand in self._hands.values():
            for then in hand.afterwards:
                then()
        if self._spec["ends"]:
            raise SystemExit(0)
        self._gc_s, self._since = 0.0, time.perf_counter()
        return True

    def told(self) -> dict[str, Any]:
        """What was learned, changed and computed, and the memory that it took."""
        with contextlib.suppress(ValueError):
            gc.callbacks.remove(self._collected)
        whole = time.perf_counter() - self._since
        if self._since and whole:
            self._facts["gc_percent"] = 100 * self._gc_s / whole
        what = "losses" if self._losses else "outputs"
        return {
            "facts": self._facts,
            "did": {name: hand.count for name, hand in self._hands.items()},
            "results": {"what": what, "numbers": self._losses or self._outputs, "moved": self._moved},
            "memory_bytes": most_memory(),
        }

    def _settle(self) -> None:
        for hand in self._hands.values():
            for settle in hand.settle:
                settle()

    # --- what is computed

    def _called(self, call: Any, args: Any, named: Any) -> Any:
        """Around each call of a module in the first steps."""
        import torch

        if torch.compiler.is_compiling() or threading.current_thread() is not threading.main_thread():
            return call(*args, **named)
        if not self._depth:
            self._before_outermost(args[0])
        elif not self._facts["autocast"]:
            self._facts["autocast"] = _autocasts()
        self._depth += 1
        try:
            result = call(*args, **named)
        finally:
            self._depth -= 1
        if not self._depth and self._steps < self._first and not _is_capturing():
            self._outputs += first_numbers(result)
        return result

    def _before_outermost(self, module: Any) -> None:
        self._settle()
        if id(module) in self._seen:
            return
        self._seen[id(module)] = module  # keeps it, lest its id be of another one later
        own = list(module.parameters())
        if own:
            self._facts["modules"] += 1
            self._facts["compiled"] |= is_compiled(module) or any(map(is_compiled, module.modules()))
            self._facts["fp32"] |= any(str(each.dtype) == "torch.float32" for each in own)
            self._facts["convolutions"] |= has_convolutions(module)
            self._facts["images_nchw"] |= convolves(module)
        self._facts["autocast"] |= _autocasts()
        if self._spec["shake"]:
            _shake(own, self._spec["shake"])
        for hand in self._hands.values():
            for change in hand.first_call:
                change(module)

    def _backward(self, original: Any, args: Any, named: Any) -> Any:
        import torch

        tensors = args[0] if args else named.get("tensors")
        self._facts["anomaly"] |= torch.is_anomaly_enabled()
        if not _is_capturing():
            for each in (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors or ()):
                self._losses += _numbers(each)
        return original(*args, **named)

    def _before_step(self, optimizer: Any) -> None:
        if any(each is optimizer for each in self._optimizers) or _is_capturing():
            return
        self._optimizers.append(optimizer)
        for hand in self._hands.values():
            for change in hand.first_step:
                change(optimizer)
        for group in optimizer.param_groups:
            used = [each for each in group["params"] if each.is_floating_point()]
            self._start += [(each, _sampled(each)) for each in used[: MOST_NUMBERS - len(self._start)]]

    def _moves(self) -> list[float]:
        """How far the first steps have moved some of the parameters."""
        if not self._start or _is_capturing():
            return []
        most = max(MOST_NUMBERS // len(self._start), 1)
        moved = []
        for parameter, before in self._start:
            moved += [after - one for one, after in zip(before[:most], _sampled(parameter)[:most])]
        return moved

    # --- what the program does

    def _watch_calls(self) -> None:
        import torch
        from torch.utils import checkpoint
        from torch.utils.data import DataLoader, IterableDataset

        calls = self._facts["calls"]

        def count(name: str, wanted: Callable[[Any, Any], bool]) -> Callable[[Any, Any, Any], Any]:
            def around(original: Any, args: Any, named: Any) -> Any:
                if wanted(args, named):
                    calls[name] = calls.get(name, 0) + 1
                return original(*args, **named)

            return around

        def copied(original: Any, args: Any, named: Any) -> Any:
            if copies_to_gpu(original, args, named) and waits(args, named) and args[0].is_pinned():
                calls["pinned_blocking"] = calls.get("pinned_blocking", 0) + 1
            return original(*args, **named)

        def iterated(original: Any, args: Any, named: Any) -> Any:
            loader = args[0]
            self._facts["loaders"].append(
                {
                    "workers": loader.num_workers,
                    "batch": loader.batch_size,
                    "pinned": bool(loader.pin_memory),
                    "persistent": bool(loader.persistent_workers),
                    "can_share": not isinstance(loader.dataset, IterableDataset),
                }
            )
            return original(*args, **named)

        def programs(args: Any, named: Any) -> bool:
            return is_programs()

        def keeps(args: Any, named: Any) -> bool:
            return not named.get("set_to_none", True) or not all(args[1:])

        for place in (torch.nn.utils, torch.nn.utils.clip_grad):
            self._look(place, "clip_grad_norm_", count("clip_single", lambda _, named: named.get("foreach") is False))
        for owner in (torch.optim.Optimizer, torch.nn.Module):
            self._look(owner, "zero_grad", count("zero_grad_kept", keeps))
        self._look(checkpoint, "checkpoint", count("checkpoint", lambda *_: True))
        self._look(torch.nn.attention, "sdpa_kernel", count("sdpa_kernel", lambda *_: True))
        self._look(torch.cuda, "synchronize", count("synchronize", programs))
        self._look(torch.cuda, "empty_cache", count("empty_cache", programs))
        self._look(gc, "collect", count("gc_collect", programs))
        self._look(torch.Tensor, "to", copied)
        self._look(torch.Tensor, "cuda", copied)
        self._look(DataLoader, "__iter__", iterated)

    def _learn(self) -> None:
        """Notes the settings at the end of the first steps."""
        import torch

        backends = torch.backends
        self._facts.update(
            steps=self._steps,
            cuda=torch.cuda.is_initialized(),
            blocking=os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"),
            uncached=bool(os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING")),
            attention_off=attention_off(),
            deterministic=torch.are_deterministic_algorithms_enabled() or backends.cudnn.deterministic,
            benchmark=backends.cudnn.benchmark,
            precision=precision(),
            threads=torch.get_num_threads(),
            optimizers=[_about(each) for each in self._optimizers],
        )
        self._facts["epsilon"] = _epsilon(self._facts, [parameter.dtype for parameter, _ in self._start])

    def _seeded(self, original: Any, args: Any, named: Any) -> Any:
        self._facts["seeded"] |= is_programs()
        return original(*args, **named)

    def _collected(self, phase: str, _: Any) -> None:
        now = time.perf_counter()
        if phase == "start":
            self._gc_begun = now
        else:
            self._gc_s += now - self._gc_begun


def _drop(variable: str, hand: Hand) -> None:
    """Takes a variable out of the environment, and keeps the program from setting it."""
    if os.environ.pop(variable, None) is not None:
        hand.did()

    def around(original: Any, args: Any, named: Any) -> Any:
        if args[1] == variable and args[0] is os.environ:
            hand.did()
            return None
        return original(*args, **named)

    hand.replace(type(os.environ), "__setitem__", around)


def _seed() -> None:
    """Seeds what a program without a seed of its own draws from."""
    import torch

    random.seed(SEED)
    torch.manual_seed(SEED)
    if (numpy := sys.modules.get("numpy")) is not None:
        with contextlib.suppress(AttributeError):
            numpy.random.seed(SEED)


def _about(optimizer: Any) -> dict[str, Any]:
    return {
        "kind": type(optimizer).__name__,
        "fused": bool(optimizer.defaults.get("fused")),
        "foreach": optimizer.defaults.get("foreach"),
        "can_fuse": can_fuse(optimizer),
    }


def _epsilon(facts: dict[str, Any], types: list[Any]) -> float:
    """The rounding error of the coarsest numbers that the program computes with."""
    import torch

    used = {torch.finfo(each).eps for each in types if each.is_floating_point}
    if facts["autocast"]:
        used.add(torch.finfo(torch.bfloat16).eps)
    if facts["cuda"] and (facts["precision"] != "highest" or (facts["convolutions"] and _convolves_in_tf32())):
        used.add(2.0**-10)
    return float(max(used, default=torch.finfo(torch.float32).eps))


def _convolves_in_tf32() -> bool:
    import torch

    with contextlib.suppress(RuntimeError):  # as in `precision`
        return bool(torch.backends.cudnn.allow_tf32)
    return True


def _autocasts() -> bool:
    import torch

    with contextlib.suppress(TypeError):
        return bool(torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"))
    return bool(torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled())


def _is_capturing() -> bool:
    """Whether a CUDA graph is being captured, in which nothing may be read."""
    import torch

    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def first_numbers(result: Any, most: int = MOST_OF_ONE) -> list[float]:
    """At most so many numbers of the first tensor of a result; none where that is no tensor of real numbers."""
    if isinstance(result, dict):
        result = next(iter(result.values()), None)
    return _numbers(result[0] if isinstance(result, (tuple, list)) and result else result, most)


def _numbers(value: Any, most: int = MOST_OF_ONE) -> list[float]:
    import torch

    return _sampled(value, most) if isinstance(value, torch.Tensor) and value.is_floating_point() else []


def _sampled(tensor: Any, most: int = MOST_OF_ONE) -> list[float]:
    """At most so many numbers, evenly taken from all of a tensor."""
    import torch

    with torch.no_grad():
        flat = tensor.detach().reshape(-1)
        count = flat.numel()
        if count > most:
            flat = flat[torch.arange(most, device=flat.device) * count // most]
        found: list[float] = flat.double().cpu().tolist()
    return found


def _shake(parameters: list[Any], size: float) -> None:
    """Changes each weight by as much as rounding may, to see what rounding alone does to the results.

    That is the error of the operands, whose type is the program's, or of sums of many products, which are in fp32: it
    grows with the root of their number.
    """
    import torch

    source = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for each in parameters:
            if each.is_floating_point() and each.numel():
                of_sums = torch.finfo(torch.float32).eps * (each.numel() / each.shape[0]) ** 0.5 if each.dim() else 0.0
                noise = (2 * torch.rand(each.shape, generator=source) - 1) * max(size, of_sums)
                each.mul_(1 + noise.to(each.device, each.dtype))


def most_memory() -> int | None:
    """The most memory of the GPU that tensors took; of a program on the CPU, the most of its process."""
    import torch

    if torch.cuda.is_initialized():
        return int(torch.cuda.max_memory_allocated())
    with contextlib.suppress(ImportError):
        import resource

        return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024
    return None
