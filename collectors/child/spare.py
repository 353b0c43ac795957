"""What a step computes though nobody uses it: padding, labels that a loss ignores, gradients that no optimizer holds.

For some steps after everything is recorded, the tensors that the program gives to its outermost modules are looked at,
and the labels of its losses. Where all tensors of one length repeat the value of an end up to it, that is padding.
"""

from __future__ import annotations

import inspect
import threading
from typing import Any, Iterator, Mapping

from .hand import replace
from .machine_torch import instances
from .unchanged import frames, place_words

LEAST_SIZE, MOST_ELEMENTS = 16, 2**26
"""Of a dimension, and of a tensor, that is looked at."""
LEAST_PERCENT = 10.0
MOST_TOLD = 8


class Spare:
    """Looks at what the thread that makes it gives to modules and losses."""

    def __init__(self) -> None:
        """Begins to look."""
        import torch

        self._thread, self._depth = threading.get_ident(), 0
        self._seen: dict[tuple[Any, ...], list[Any]] = {}
        functions = getattr(getattr(torch, "_C", None), "_nn", None)  # no part of torch's public interface
        losses = [name for name in ("cross_entropy_loss", "nll_loss_nd") if hasattr(functions, name)]
        self._undo = [
            replace(torch.nn.Module, "__call__", self._called),
            *(replace(functions, name, self._lost) for name in losses),
        ]

    def end(self) -> list[dict[str, Any]]:
        """Looks no more; what was seen on average, that of most positions first."""
        while self._undo:
            self._undo.pop()()
        told = []
        for (place, of, name, dim), seen in self._seen.items():
            percent, mean = (100 * sum(part[at] for _, part in seen) / len(seen) for at in (0, 1))
            if mean >= LEAST_PERCENT:
                about = {"name": name, "of": of, "shape": list(seen[-1][0]), "dim": dim}
                told.append({**about, "percent": percent, "mean_percent": mean, **place_words(place)})
        return sorted(told, key=lambda each: -each["mean_percent"])[:MOST_TOLD]

    def _called(self, original: Any, args: Any, given: Any) -> Any:
        if threading.get_ident() != self._thread:
            return original(*args, **given)
        self._depth += 1
        try:
            if self._depth == 1:
                self._look(args[0], args[1:], given)
            return original(*args, **given)
        finally:
            self._depth -= 1

    def _look(self, module: Any, args: Any, given: Any) -> None:
        of_size: dict[int, list[Any]] = {}
        try:
            known = inspect.signature(module.forward).bind(*args, **given).arguments
            inputs = {each.shape[1] for each in module.parameters() if each.dim() > 1 and each.shape[0] > 1}
            for name, tensor in _tensors("", known):
                for dim, size in enumerate(tensor.shape):
                    # a border of pictures is in both dimensions, and what is weighed has weights for each position
                    fixed = tensor.shape.count(size) > 1 or (tensor.is_floating_point() and size in inputs)
                    if tensor.dim() > 1 and size >= LEAST_SIZE and tensor.numel() <= MOST_ELEMENTS and not fixed:
                        part = max((_alike(tensor.detach(), dim, end) for end in (0, -1)), key=lambda part: part[1])
                        of_size.setdefault(size, []).append((part[1], part, name, dim, tuple(tensor.shape)))
            for tensors in of_size.values():
                # one that has content there tells that it is no padding, one that is all the same tells nothing
                telling = [each for each in tensors if each[0] < 1]
                if telling:
                    _, part, name, dim, shape = min(telling, key=lambda each: each[0])
                    self._keep(type(module).__name__, name, dim, shape, part)
        except Exception:  # whatever happens, the program goes on
            return

    def _lost(self, original: Any, args: Any, given: Any) -> Any:
        try:
            scores, target, _, _, ignored = args[:5]
            rows = threading.get_ident() == self._thread and (scores.dim(), target.dim()) == (2, 1)
            if rows and target.numel() >= LEAST_SIZE:
                part = (target.detach() == ignored).double().mean().item()
                self._keep(original.__name__, "target", None, tuple(scores.shape), (part, part))
        except Exception:  # whatever happens, the program goes on
            return original(*args, **given)
        return original(*args, **given)

    def _keep(self, of: str, name: str, dim: int | None, shape: Any, part: tuple[float, float]) -> None:
        where = frames()
        if where:
            self._seen.setdefault((where[-1], of, name, dim), []).append((shape, part))


def _tensors(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    import torch

    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
        yield name, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _tensors(str(key), each)
    elif isinstance(value, (tuple, list)):
        for number, each in enumerate(value):
            yield from _tensors(f"{name}[{number}]", each)


def _alike(tensor: Any, dim: int, end: int) -> tuple[float, float]:
    """Which part of a dimension repeats its first (0) or last position (-1): in all items, and on average."""
    same = (tensor == tensor.select(dim, end).unsqueeze(dim)).movedim((dim, 0 if dim else 1), (1, 0))
    same = same.flatten(2).all(2) if same.dim() > 2 else same
    run = (same.flip(1) if end else same).long().cumprod(1).sum(1).double()
    run = run * (run > 1) / same.shape[1]
    # of the batch's items those count that are all the same
    return run.min().item(), (run.mean() if dim else run.min()).item()


def unheld() -> dict[str, Any] | None:
    """What the modules of this process hold that has a gradient and is in no optimizer.

    Returns:
        ``parameters`` (how many), ``bytes`` (of their gradients) and ``classes``: of the modules whose parameters are
        all so, the outermost ones whose class no module has that is trained. None where there are none, or where no
        optimizer holds a parameter of the same model: then it keeps copies of its own.
    """
    import torch

    modules = instances(torch.nn.Module)
    held = {
        id(parameter)
        for each in instances(torch.optim.Optimizer)
        for group in each.param_groups
        for parameter in group["params"]
    }
    inner = {id(child) for module in modules for child in module.children()}
    loose: dict[int, Any] = {}
    classes: dict[str, None] = {}
    for root in modules:
        if id(root) in inner or not any(id(parameter) in held for parameter in root.parameters()):
            continue
        loose.update((id(each), each) for each in root.parameters() if each.grad is not None and id(each) not in held)
        trained = {type(each).__name__ for each in root.modules() if not _is_loose(each, held)}
        classes.update(dict.fromkeys(_outermost(root, held, trained)))
    if not loose:
        return None
    size = sum(each.grad.numel() * each.grad.element_size() for each in loose.values())
    return {"parameters": len(loose), "bytes": size, "classes": list(classes)}


def _is_loose(module: Any, held: set[int]) -> bool:
    """Whether it gets gradients and none of its parameters is held."""
    parameters = list(module.parameters())
    return any(each.grad is not None for each in parameters) and not any(id(each) in held for each in parameters)


def _outermost(module: Any, held: set[int], trained: set[str]) -> list[str]:
    if _is_loose(module, held) and type(module).__name__ not in trained:
        return [type(module).__name__]
    return [name for child in module.children() for name in _outermost(child, held, trained)]
