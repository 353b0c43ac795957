"""The user's own model: ``package.module:factory``, imported from the current directory or PYTHONPATH.

The factory takes nothing, or the options as a dict (``batch``, ``img_size``, ``dtype``, …), and returns one of

* an ``nn.Module`` that takes images (batch, 3, img_size, img_size),
* ``(module, make_batch)``: ``make_batch(batch)`` (or ``make_batch()``) returns what the module takes: a tensor, a tuple
  of positional arguments or a dict of named ones,
* an object that runs steps of its own: ``step(batch)``, and ``batches()`` (an iterator) or ``make_batch()``; where it
  has ``model``, ``parameters``, ``flops_per_step()``, ``compulsory_bytes_per_step()``, ``input_shapes(batch)``,
  ``samples_per_step`` or ``describe()``, as `Workload` has them, they are used too.

In training the module's output must be a loss, or have one as ``.loss`` or ``["loss"]``; for any other output the mean
of its squares serves as the loss, and a note says so.

Imports torch; `registry` imports this module when a model is built.
"""

from __future__ import annotations

import importlib
import inspect
import operator
import os
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parameter import is_lazy

from .data import RandomImages, samples, shapes, stacked, tensors
from .errors import ModelError, UserModelError
from .tasks import Parts, counted_cost
from .workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .sizes import Cost

STAND_IN = "the model's output is not a loss, so the mean of its squares is used as one"
NO_BATCH = (
    "the factory gave no make_batch, so the model gets random images (batch, 3, img_size, img_size);"
    " return (model, make_batch) for anything else"
)


def build(name: str, options: dict[str, Any]) -> Any:
    """The parts of a workload, or the workload that the factory itself made.

    Raises:
        UserModelError: the module can't be imported, or the factory failed or returned something else. Where the user's
            own code raised, that error is its cause.
    """
    factory = _factory(name)
    torch.manual_seed(options["seed"])
    made = _called(name, factory, options)
    if isinstance(made, torch.nn.Module):
        return _parts(made, None, options)
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], torch.nn.Module) and callable(made[1]):
        return _parts(made[0], made[1], options)
    if callable(getattr(made, "step", None)) and (hasattr(made, "batches") or hasattr(made, "make_batch")):
        return OwnWorkload(name, options, made)
    raise UserModelError(
        f"{name} returned {type(made).__name__}, which is no nn.Module, no (module, make_batch), and no object with"
        " step(batch) and batches() or make_batch()"
    )


def _factory(name: str) -> Any:
    path, _, attribute = name.partition(":")
    here = os.getcwd()  # noqa: PTH109  as `python -m` puts it on the path
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = importlib.import_module(path)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and (path + ".").startswith(error.name + "."):
            raise UserModelError(
                f"no module {path!r} in the current directory or on PYTHONPATH; {name!r} means MODULE:FACTORY"
            ) from None
        raise UserModelError(f"{path} can't be imported: {_line(error)}") from error
    try:
        found = operator.attrgetter(attribute)(found)
    except AttributeError:
        raise UserModelError(f"{path} has no {attribute!r}") from None
    if not callable(found):
        raise UserModelError(f"{name} is {type(found).__name__}, not a function that returns a model")
    return found


def _called(name: str, factory: Any, options: dict[str, Any]) -> Any:
    try:
        return factory(dict(options)) if _takes_one(factory) else factory()
    except (Exception, SystemExit) as error:
        raise UserModelError(f"{name} failed: {_line(error)}") from error


def _takes_one(called: Any) -> bool:
    """Whether it must be given one positional argument."""
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in signature.parameters.values() if p.kind in positional and p.default is p.empty]
    return len(required) == 1


class OwnWorkload(Workload):
    """Wraps a user's object that runs its own steps, and adds what every workload has."""

    def __init__(self, name: str, options: dict[str, Any], own: Any) -> None:
        self.entry_name, self.options, self.own = name, options, own
        self.backend, self.notes = "user", []
        self.model = getattr(own, "model", None)
        self.samples_per_step = None

    @property
    def parameters(self) -> int | None:  # type: ignore[override]
        """The number that the object gives, else counted in its model; null if it has neither."""
        if isinstance(getattr(self.own, "parameters", None), int):
            return int(self.own.parameters)
        if isinstance(self.model, torch.nn.Module):
            return int(sum(parameter.numel() for parameter in self.model.parameters()))
        return None

    def make_batch(self) -> Any:
        """The object's own batch, or the first one that it yields."""
        return self.own.make_batch() if hasattr(self.own, "make_batch") else next(iter(self.own.batches()))

    def batches(self) -> Iterator[Any]:
        """The object's own batches, or one batch over and over."""
        if hasattr(self.own, "batches"):
            yield from self.own.batches()
            return
        batch = self.own.make_batch()
        while True:
            yield batch

    def step(self, batch: Any) -> None:
        """Runs the object's own step."""
        self.own.step(batch)
        own = getattr(self.own, "samples_per_step", None)
        self.samples_per_step = samples(batch) if own is None else own

    def input_shapes(self, batch: Any) -> list[list[int]]:
        """The shapes that the object gives, else those of every tensor in the batch."""
        found: list[list[int]] = self.own.input_shapes(batch) if hasattr(self.own, "input_shapes") else shapes(batch)
        return found

    def flops_per_step(self) -> int | None:
        """The number that the object gives."""
        found: int | None = self.own.flops_per_step() if hasattr(self.own, "flops_per_step") else None
        return found

    def compulsory_bytes_per_step(self) -> int | None:
        """The number that the object gives."""
        given = hasattr(self.own, "compulsory_bytes_per_step")
        found: int | None = self.own.compulsory_bytes_per_step() if given else None
        return found

    def describe(self) -> dict[str, Any]:
        """What is known of any workload, overridden by what the object says."""
        described = {
            "model": self.entry_name,
            "family": "user",
            "parameters": self.parameters,
            "backend": self.backend,
            "requested_batch": self.options["batch"],
            "batch": self.samples_per_step,
            "flops_per_step": self.flops_per_step(),
            "compulsory_bytes_per_step": self.compulsory_bytes_per_step(),
            "options": dict(self.options),
            "notes": ["the workload runs its own steps: options apply as far as it heeds them"],
        }
        own = self.own.describe() if hasattr(self.own, "describe") else {}
        return {**described, **own}


def _parts(model: Any, make_batch: Any, options: dict[str, Any]) -> Parts:
    notes = []
    if make_batch is None:
        options["img_size"] = options["img_size"] or 224
        notes.append(NO_BATCH)
    elif options["data"] != "random" or options["workers"] is not None:
        raise ModelError("--data and --workers are for models without a make_batch of their own")

    def loss(output: Any, _: Any) -> Any:
        found = _loss(output)
        if found is None:
            if STAND_IN not in notes:
                notes.append(STAND_IN)
            numbers = [tensor for tensor in tensors(output) if tensor.is_floating_point()]
            found = sum(tensor.float().pow(2).mean() for tensor in numbers)
        return found

    parts = Parts(
        model=model,
        backend="user",
        sample=_Image(options["img_size"] or 224, options["seed"]),
        forward=_forward,
        loss=loss,
        cost=lambda *_: None,
        whole_batch=None if make_batch is None else _Batches(make_batch),
        notes=notes,
    )
    _settle(model, parts)

    @lru_cache(maxsize=None)
    def cost(count: int, train: bool, each: int) -> Cost | None:
        batch = parts.whole_batch(count) if parts.whole_batch else None
        if batch is None:
            batch = torch.empty(count, 3, options["img_size"], options["img_size"], device="meta")
        return counted_cost(model, _forward, loss, batch, train=train, output_bytes_each=each)

    parts.cost = cost
    return parts


def _settle(model: Any, parts: Parts) -> None:
    """Runs one sample, so that lazy layers learn their sizes before anything is counted."""
    if not any(is_lazy(tensor) for tensor in [*model.parameters(), *model.buffers()]):
        return
    batch = parts.whole_batch(1) if parts.whole_batch else stacked([parts.sample(0)])
    training = model.training
    with torch.no_grad():
        _forward(model.eval(), batch)
    model.train(training)


class _Image:
    """A random image without its label, since the user's model may not accept one."""

    def __init__(self, size: int, seed: int) -> None:
        self.images = RandomImages(size, 1, seed)

    def __call__(self, number: int) -> Any:
        return self.images(number)[0]


class _Batches:
    """Calls the user's make_batch, with the number of samples if it accepts one."""

    def __init__(self, make_batch: Any) -> None:
        self.make_batch = make_batch

    def __call__(self, count: int) -> Any:
        made = self.make_batch(count) if _takes_one(self.make_batch) else self.make_batch()
        if not tensors(made):
            raise UserModelError(f"make_batch returned {type(made).__name__}, which holds no tensor")
        return made


def _forward(model: Any, batch: Any) -> Any:
    if isinstance(batch, dict):
        return model(**batch)
    if isinstance(batch, (list, tuple)):
        return model(*batch)
    return model(batch)


def _loss(output: Any) -> Any:
    if isinstance(output, torch.Tensor):
        return output if output.dim() == 0 else None
    if isinstance(output, dict):
        return output.get("loss")
    return getattr(output, "loss", None)


def _line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
