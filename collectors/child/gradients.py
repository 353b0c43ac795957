"""Which parameters get gradients that nobody uses: those that no optimizer holds."""

from __future__ import annotations

from typing import Any

from .machine_torch import instances


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
