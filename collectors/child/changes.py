"""Changes of somebody else's program that need no edit of it: what each does, when it applies, how to write it.

`make` is called before the program runs, once torch is imported (`before` even before that), with a `Hand` that
replaces functions, looks at the first calls and sets what the program has set. The parent reads the table too, so
nothing here imports torch before a change is made.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from typing import TYPE_CHECKING, Any, Dict, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .hand import Hand

MOST_WORKERS = 16
MOST_COMPILED = 32
"""Modules that are compiled, each at its first call: a program may call thousands by themselves."""
LITTLE_GC_PERCENT = 0.5
"""Of the steps' time, below which the garbage collector is not worth a change."""
Facts = Dict[str, Any]
"""What `outside.Outside` has learned of the program's first steps."""


class Change(NamedTuple):
    """One change, as it is told and as it is made."""

    name: str
    title: str
    write: str
    """The line to write into the program."""
    fits: Callable[[Facts], bool]
    make: Callable[[Hand], None]
    rules: tuple[str, ...] = ()
    """The findings that advise it."""
    keeps: bool = True
    """Whether it leaves the arithmetic as it is, but for its order."""
    risk: str = ""
    """What it may break."""
    kind: str = ""
    """Of those of one kind only one can be made at a time; empty for its name."""
    drops: tuple[str, ...] = ()
    """Variables of the environment that are taken away, also when the program sets them."""
    samples: int = 1
    """How many times as many samples a step then has."""
    redraws: bool = False
    """Whether random augmentations of the samples then draw other numbers, so that results differ and mean the same."""
    restarts: bool = False
    """Whether a program reads it when it begins, so that it can't be changed between two steps."""


# --- how they are made


def _nothing(hand: Hand) -> None:
    """Made by `drops` alone."""


def _without_anomaly(hand: Hand) -> None:
    import torch

    switch = torch.set_anomaly_enabled

    def around(original: Any, args: Any, named: Any) -> None:
        if any(args[:1]) or named.get("enabled"):
            hand.did()

    def end() -> None:
        if torch.is_anomaly_enabled():
            checks = torch.is_anomaly_check_nan_enabled()
            switch(False)
            hand.did(lambda: switch(True, checks))

    hand.replace(torch, "set_anomaly_enabled", around)
    hand.keep_set(end)


def _not_deterministic(hand: Hand) -> None:
    import torch

    def free() -> None:
        # its variable is read when cuBLAS begins, so it is never taken back
        if torch.are_deterministic_algorithms_enabled() or torch.backends.cudnn.deterministic:
            torch.use_deterministic_algorithms(False)
            torch.backends.cudnn.deterministic = False
            hand.did()

    hand.keep_set(free)


def _benchmark(hand: Hand) -> None:
    import torch

    def search() -> None:
        if not torch.backends.cudnn.benchmark:
            torch.backends.cudnn.benchmark = True
            hand.did(lambda: setattr(torch.backends.cudnn, "benchmark", False))

    hand.keep_set(search)


def _tf32(hand: Hand) -> None:
    import torch

    def allow() -> None:
        if precision() == "highest":
            torch.set_float32_matmul_precision("high")
            hand.did(lambda: torch.set_float32_matmul_precision("highest"))

    hand.keep_set(allow)


def _threads(hand: Hand) -> None:
    import torch

    count = cores()

    def use_all() -> None:
        if (before := torch.get_num_threads()) != count:
            torch.set_num_threads(count)
            hand.did(lambda: torch.set_num_threads(before))

    hand.keep_set(use_all)


def _channels_last(hand: Hand) -> None:
    import torch

    def laid_out(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dim() == 4:
            return value.contiguous(memory_format=torch.channels_last)
        return value

    def before(module: Any, args: Any, named: Any) -> Any:
        return tuple(map(laid_out, args)), {name: laid_out(value) for name, value in named.items()}

    def lay_out(module: Any, layout: Any) -> None:
        module.to(memory_format=layout)
        for parameter in module.parameters():
            if parameter.dim() == 4:
                if parameter.grad is not None:
                    parameter.grad = parameter.grad.contiguous(memory_format=layout)
                for state in [each.state[parameter] for each in hand.optimizers if parameter in each.state]:
                    alike = {
                        name: value for name, value in state.items() if getattr(value, "shape", None) == parameter.shape
                    }
                    state.update({name: value.contiguous(memory_format=layout) for name, value in alike.items()})

    def change(module: Any) -> None:
        if convolves(module):
            lay_out(module, torch.channels_last)
            hook = module.register_forward_pre_hook(before, with_kwargs=True)
            hand.did(functools.partial(lay_out, module, torch.contiguous_format))
            hand.did(hook.remove)

    hand.at_first_call(change)


def _bf16(hand: Hand) -> None:
    import torch

    def back(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.float() if value.dtype is torch.bfloat16 else value
        if type(value) in (tuple, list):
            return type(value)(map(back, value))
        if isinstance(value, dict):
            for name in list(value):  # in place, since a model's output may be a kind of dict
                value[name] = back(value[name])
        return value

    def change(module: Any) -> None:
        device = next((each.device.type for each in module.parameters()), None)
        if device is None or is_compiled(module):
            return
        forward = module.forward

        @functools.wraps(forward)
        def mixed(*args: Any, **named: Any) -> Any:
            with torch.autocast(device, torch.bfloat16):
                result = forward(*args, **named)
            return back(result)

        hand.put(module, "forward", mixed)

    hand.at_first_call(change)


def _compile(mode: str | None) -> Callable[[Hand], None]:
    def make(hand: Hand) -> None:
        import torch

        def change(module: Any) -> None:
            if hand.count < MOST_COMPILED and not is_compiled(module) and any(True for _ in module.parameters()):
                call = module._call_impl

                # not module.compile(), which leaves modules of torch's own, as nn.Sequential, as they are
                def whole(*args: Any, **named: Any) -> Any:
                    return call(*args, **named)

                if hand.draws_alike:
                    from torch._inductor import config

                    config.fallback_random = True
                module._compiled_call_impl = torch.compile(whole, mode=mode)
                hand.did(lambda: setattr(module, "_compiled_call_impl", None))

        hand.at_first_call(change)

    return make


def _optimizer(which: str) -> Callable[[Hand], None]:
    def make(hand: Hand) -> None:
        def change(optimizer: Any) -> None:
            groups = [dict(group) for group in optimizer.param_groups]
            if which == "fused" and can_fuse(optimizer) and not all(group["fused"] for group in groups):
                _set_groups(optimizer, [{"fused": True, "foreach": False}] * len(groups))
            elif which == "foreach" and any(group.get("foreach") is False and not group["fused"] for group in groups):
                _set_groups(optimizer, [{"foreach": True}] * len(groups))
            else:
                return
            hand.did(lambda: _set_groups(optimizer, groups))

        hand.at_first_step(change)

    return make


def _set_groups(optimizer: Any, options: Sequence[Facts]) -> None:
    """Sets how an optimizer computes; a fused one counts its steps where the parameters are."""
    for group, option in zip(optimizer.param_groups, options):
        group.update({name: option[name] for name in ("fused", "foreach") if name in option})
        for parameter in group["params"]:
            count = optimizer.state.get(parameter, {}).get("step")
            if hasattr(count, "to"):
                place = parameter.device if group["fused"] or group.get("capturable") else "cpu"
                optimizer.state[parameter]["step"] = count.to(place)
    optimizer._step_supports_amp_scaling = all(group["fused"] for group in optimizer.param_groups)


def _clip(hand: Hand) -> None:
    import torch

    def around(original: Any, args: Any, named: Any) -> Any:
        if named.get("foreach") is False:
            named["foreach"] = True
            hand.did()
        return original(*args, **named)

    for place in (torch.nn.utils, torch.nn.utils.clip_grad):
        hand.replace(place, "clip_grad_norm_", around)


def _zero_grad(hand: Hand) -> None:
    import torch

    def around(original: Any, args: Any, named: Any) -> Any:
        if named.get("set_to_none", True) and all(args[1:]):
            return original(*args, **named)
        hand.did()
        return original(args[0])

    hand.replace(torch.optim.Optimizer, "zero_grad", around)
    hand.replace(torch.nn.Module, "zero_grad", around)


_LOADER_BATCH, _LOADER_SAMPLER, _LOADER_WORKERS, _LOADER_PIN = 2, 5, 6, 8
"""Places of `batch_size`, `batch_sampler`, `num_workers` and `pin_memory` among the arguments of `DataLoader.__init__`,
self included."""


def _workers(hand: Hand) -> None:
    from torch.utils.data import DataLoader, IterableDataset

    count = workers()

    def around(original: Any, args: Any, named: Any) -> Any:
        data = args[1] if len(args) > 1 else named.get("dataset")
        # each worker would go through all of an iterable one
        fits = len(args) <= _LOADER_WORKERS and not isinstance(data, IterableDataset)
        if fits and (named.get("num_workers") or 0) < count:
            named.update(num_workers=count, persistent_workers=True)
            hand.did()
        return original(*args, **named)

    hand.replace(DataLoader, "__init__", around)


def _batch(hand: Hand) -> None:
    from torch.utils.data import DataLoader

    at = _LOADER_BATCH

    def around(original: Any, args: Any, named: Any) -> Any:
        size = args[at] if len(args) > at else named.get("batch_size", 1)
        if size is not None and named.get("batch_sampler") is None and len(args) <= _LOADER_SAMPLER:
            hand.did()
            if len(args) > at:
                args = (*args[:at], 2 * size, *args[at + 1 :])
            else:
                named["batch_size"] = 2 * size
        return original(*args, **named)

    hand.replace(DataLoader, "__init__", around)


def _attention(hand: Hand) -> None:
    import torch
    from torch.nn import attention

    def free() -> None:
        for name in attention_off():
            switch = getattr(torch.backends.cuda, f"enable_{name}_sdp")
            switch(True)
            hand.did(functools.partial(switch, False))

    def around(original: Any, args: Any, named: Any) -> Any:
        hand.did()
        return contextlib.nullcontext()

    hand.keep_set(free)
    hand.replace(attention, "sdpa_kernel", around)


def _persistent(hand: Hand) -> None:
    from torch.utils.data import DataLoader

    def around(original: Any, args: Any, named: Any) -> Any:
        if named.get("num_workers") and not named.get("persistent_workers"):
            named["persistent_workers"] = True
            hand.did()
        return original(*args, **named)

    hand.replace(DataLoader, "__init__", around)


def _pinned(hand: Hand) -> None:
    from torch.utils.data import DataLoader

    def around(original: Any, args: Any, named: Any) -> Any:
        if len(args) <= _LOADER_PIN and not named.get("pin_memory"):
            named["pin_memory"] = True
            hand.did()
        return original(*args, **named)

    hand.replace(DataLoader, "__init__", around)
    _non_blocking(hand)


def _non_blocking(hand: Hand) -> None:
    import torch

    def around(original: Any, args: Any, named: Any) -> Any:
        # to the GPU only: what comes back would be read before it is there
        if copies_to_gpu(original, args, named) and args[0].is_pinned() and waits(args, named):
            named["non_blocking"] = True
            hand.did()
        return original(*args, **named)

    hand.replace(torch.Tensor, "to", around)
    hand.replace(torch.Tensor, "cuda", around)


def _no_checkpoints(hand: Hand) -> None:
    from torch.utils import checkpoint

    own = ("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop")

    def around(original: Any, args: Any, named: Any) -> Any:
        hand.did()
        function, *rest = args if args else (named.pop("function"),)
        return function(*rest, **{name: value for name, value in named.items() if name not in own})

    hand.replace(checkpoint, "checkpoint", around)


def _without(module: str, name: str) -> Callable[[Hand], None]:
    """Leaves out the program's own calls of a function."""

    def make(hand: Hand) -> None:
        import importlib

        def around(original: Any, args: Any, named: Any) -> Any:
            if not hand.is_programs_call():
                return original(*args, **named)
            hand.did()
            return None

        hand.replace(importlib.import_module(module), name, around)

    return make


def _frozen(hand: Hand) -> None:
    def freeze() -> None:
        gc.collect()
        gc.freeze()
        hand.did()

    hand.after_first_steps(freeze)


# --- what they ask


def cores() -> int:
    """Cores that this process may use."""
    import os

    with contextlib.suppress(AttributeError, OSError):
        return max(len(os.sched_getaffinity(0)), 1)
    return os.cpu_count() or 1


def attention_off() -> list[str]:
    """The fast kernels of `scaled_dot_product_attention` that are switched off."""
    import torch

    cuda = torch.backends.cuda
    names = ("flash", "mem_efficient", "cudnn")
    return [name for name in names if not getattr(cuda, f"{name}_sdp_enabled", lambda: True)()]


def precision() -> str:
    """Of fp32 products: ``highest``, ``high``, ``medium``; empty where it is set in a newer way of torch."""
    import torch

    with contextlib.suppress(RuntimeError):
        return str(torch.get_float32_matmul_precision())
    return ""


def workers() -> int:
    """Workers of a loader: one for each core, few of many."""
    return min(cores(), MOST_WORKERS)


def convolves(module: Any) -> bool:
    """Whether a module has convolutions of images that are not laid out as channels_last."""
    import torch

    kinds = (torch.nn.Conv2d, torch.nn.ConvTranspose2d)
    return any(
        isinstance(each, kinds) and not each.weight.is_contiguous(memory_format=torch.channels_last)
        for each in module.modules()
    )


def has_convolutions(module: Any) -> bool:
    """Whether there is a layer that cuDNN searches an algorithm for: the name tells nothing, GPT-2's Conv1D is none."""
    from torch.nn.modules.conv import _ConvNd

    return any(isinstance(each, _ConvNd) for each in module.modules())


def is_compiled(module: Any) -> bool:
    """Whether `torch.compile` or TorchScript has it already."""
    if getattr(module, "_compiled_call_impl", None) is not None:
        return True
    return type(module).__name__ in ("OptimizedModule", "RecursiveScriptModule", "ScriptModule", "TopLevelTracedModule")


def can_fuse(optimizer: Any) -> bool:
    """Whether it is one of torch's own with a fused form for these parameters."""
    used = [each for group in optimizer.param_groups for each in group["params"]]
    torchs = type(optimizer).__module__.startswith("torch.optim")
    return torchs and "fused" in optimizer.defaults and all(each.is_floating_point() for each in used)


def copies_to_gpu(function: Any, args: Any, named: Any) -> bool:
    """Whether this call of `Tensor.to` or `Tensor.cuda` copies from the host to a GPU."""
    if args[0].device.type != "cpu":
        return False
    if function.__name__ == "cuda":
        return True
    for value in (*args[1:2], named.get("device"), named.get("other")):
        kind = getattr(getattr(value, "device", value), "type", value)
        if (isinstance(kind, int) and not isinstance(kind, bool)) or (isinstance(kind, str) and kind[:4] == "cuda"):
            return True
    return False


def waits(args: Any, named: Any) -> bool:
    """Whether such a copy was not asked to let the host go on."""
    return not named.get("non_blocking") and not any(each is True for each in args[1:])


def _gpu(facts: Facts) -> bool:
    return bool(facts["cuda"])


def _per_step(name: str) -> Callable[[Facts], bool]:
    """Whether the program makes such a call in each step; what follows the last of them was not seen."""
    return lambda facts: facts["calls"].get(name, 0) >= max(facts["steps"] - 1, 1)


def _loaders(facts: Facts, **wanted: Any) -> bool:
    return any(all(loader[name] == value for name, value in wanted.items()) for loader in facts["loaders"])


CHANGES: tuple[Change, ...] = (
    Change(
        "async_launches", "CUDA_LAUNCH_BLOCKING off", "unset CUDA_LAUNCH_BLOCKING",
        lambda facts: facts["blocking"], _nothing, ("S32", "S2"),
        risk="errors of kernels show later", drops=("CUDA_LAUNCH_BLOCKING",), restarts=True,
    ),
    Change(
        "caching_allocator", "PyTorch's caching allocator", "unset PYTORCH_NO_CUDA_MEMORY_CACHING",
        lambda facts: facts["uncached"], _nothing, ("S32",), risk="memory stays reserved between steps",
        drops=("PYTORCH_NO_CUDA_MEMORY_CACHING",), restarts=True,
    ),
    Change(
        "attention", "all attention kernels allowed", "remove sdpa_kernel(…) and enable_*_sdp(False)",
        lambda facts: _gpu(facts) and bool(facts["attention_off"] or _per_step("sdpa_kernel")(facts)), _attention,
        ("F6",),
    ),
    Change(
        "no_anomaly", "anomaly mode off", "torch.autograd.set_detect_anomaly(False)",
        lambda facts: facts["anomaly"], _without_anomaly, ("S32", "S2"), risk="NaNs are not reported where they arise",
    ),
    Change(
        "not_deterministic", "deterministic mode off", "torch.use_deterministic_algorithms(False)",
        lambda facts: facts["deterministic"], _not_deterministic, ("S32", "K2"),
        risk="runs are not repeatable bit for bit", drops=("CUBLAS_WORKSPACE_CONFIG",), restarts=True,
    ),
    Change(
        "no_synchronize", "torch.cuda.synchronize() left out", "remove torch.cuda.synchronize() from the step",
        _per_step("synchronize"), _without("torch.cuda", "synchronize"), ("S7", "S2"),
        risk="clocks read on the host no longer tell the GPU's time",
    ),
    Change(
        "no_empty_cache", "torch.cuda.empty_cache() left out", "remove torch.cuda.empty_cache() from the step",
        _per_step("empty_cache"), _without("torch.cuda", "empty_cache"), ("S7", "S2"),
        risk="more memory stays reserved",
    ),
    Change(
        "no_gc_collect", "gc.collect() left out", "remove gc.collect() from the step",
        _per_step("gc_collect"), _without("gc", "collect"), ("S32", "S2"), risk="reference cycles live longer",
    ),
    Change(
        "no_checkpoints", "checkpointing off", "call the layer itself in place of checkpoint(layer, …)",
        _per_step("checkpoint"), _no_checkpoints, ("S30", "F7"), risk="activations are kept: more memory",
    ),
    Change(
        "workers", "loader with workers", "DataLoader(…, num_workers=N, persistent_workers=True)",
        lambda facts: any(loader["workers"] < workers() and loader["can_share"] for loader in facts["loaders"]),
        _workers, ("S5",), risk="random augmentations draw other numbers; memory of each worker",
        redraws=True, restarts=True,
    ),
    Change(
        "persistent_workers", "workers kept between epochs", "DataLoader(…, persistent_workers=True)",
        lambda facts: len(facts["loaders"]) > 1
        and any(loader["workers"] and not loader["persistent"] for loader in facts["loaders"]),
        _persistent, ("S5",), restarts=True,
    ),
    Change(
        "pinned", "batches pinned, copied without waiting",
        "DataLoader(…, pin_memory=True) and tensor.to(device, non_blocking=True)",
        lambda facts: _gpu(facts) and _loaders(facts, pinned=False), _pinned, ("S8", "S10", "S7"),
        risk="a batch must not be overwritten while it is copied", restarts=True,
    ),
    Change(
        "non_blocking", "pinned tensors copied without waiting", "tensor.to(device, non_blocking=True)",
        lambda facts: _gpu(facts) and _per_step("pinned_blocking")(facts), _non_blocking, ("S10", "S7"),
        risk="a tensor must not be overwritten while it is copied",
    ),
    Change(
        "fused_optimizer", "optimizer fused", "torch.optim.NAME(…, fused=True)",
        lambda facts: any(each["can_fuse"] and not each["fused"] for each in facts["optimizers"]),
        _optimizer("fused"), ("F4", "S2", "S12"), kind="optimizer",
    ),
    Change(
        "foreach_optimizer", "optimizer foreach", "torch.optim.NAME(…, foreach=True)",
        lambda facts: any(each["foreach"] is False and not each["fused"] for each in facts["optimizers"]),
        _optimizer("foreach"), ("F4", "S2", "S12"), risk="a copy of the gradients' size", kind="optimizer",
    ),
    Change(
        "clip_foreach", "clip_grad_norm_ foreach", "clip_grad_norm_(…, foreach=True)",
        _per_step("clip_single"), _clip, ("S2", "S12"),
    ),
    Change(
        "set_to_none", "gradients set to None", "optimizer.zero_grad(set_to_none=True)",
        _per_step("zero_grad_kept"), _zero_grad, ("S2", "S12"), risk="code that reads .grad after zero_grad()",
    ),
    Change(
        "threads", "a thread for each core", "torch.set_num_threads(N)",
        lambda facts: facts["threads"] != facts["cores"], _threads, ("S2",), risk="less for other processes",
    ),
    Change(
        "cudnn_benchmark", "cudnn.benchmark", "torch.backends.cudnn.benchmark = True",
        lambda facts: _gpu(facts) and facts["convolutions"] and not facts["benchmark"], _benchmark, ("K2",),
        risk="each new shape of input is slow at first",
    ),
    Change(
        "channels_last", "channels_last",
        "model.to(memory_format=torch.channels_last) and images.to(memory_format=torch.channels_last)",
        lambda facts: facts["images_nchw"], _channels_last, ("F11", "K2", "F7"), risk="code that calls .view on images",
    ),
    Change(
        "gc_frozen", "garbage collector frozen", "gc.collect(); gc.freeze() after the first steps",
        lambda facts: facts.get("gc_percent", 0.0) >= LITTLE_GC_PERCENT, _frozen, ("S32", "S2"),
        risk="cycles made until then are never freed", restarts=True,  # what the program froze can't be told apart
    ),
    Change(
        "tf32", "TF32", 'torch.set_float32_matmul_precision("high")',
        lambda facts: _gpu(facts) and facts["fp32"] and not facts["autocast"] and facts["precision"] == "highest",
        _tf32, ("F1",), keeps=False, risk="products with 10 bits of mantissa", kind="type",
    ),
    Change(
        "bf16", "autocast to bf16", "with torch.autocast(device, torch.bfloat16): the forward pass",
        lambda facts: facts["fp32"] and not facts["autocast"] and facts["modules"], _bf16, ("F1", "F2"),
        keeps=False, risk="products with 7 bits of mantissa", kind="type",
    ),
    Change(
        "batch", "batch doubled", "DataLoader(…, batch_size=2 * N)",
        lambda facts: any(loader["batch"] for loader in facts["loaders"]), _batch, ("G5", "K3", "S2", "S12"),
        keeps=False, risk="another training: fewer, larger steps, other learning rates; more memory",
        samples=2, restarts=True,
    ),
    Change(
        "compile", "torch.compile", "model = torch.compile(model)",
        lambda facts: facts["modules"] and not facts["compiled"], _compile(None), ("F7", "F11", "F12", "S12", "S2"),
        risk="compiles anew for other shapes; dropout draws other numbers", kind="compile",
    ),
    Change(
        "compile_graphs", "torch.compile with CUDA graphs", 'model = torch.compile(model, mode="reduce-overhead")',
        lambda facts: _gpu(facts) and facts["modules"] and not facts["compiled"], _compile("reduce-overhead"),
        ("S2", "S12", "F7"), risk="outputs are overwritten by the next step; more memory", kind="compile",
    ),
)  # fmt: skip
BY_NAME = {change.name: change for change in CHANGES}
