"""A built model that is ready to run: its batches, its step, and what is known about both."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch

from . import parallel
from .data import Endless, loader_batches, mapped, samples, shapes, stacked, to_device
from .errors import ModelError
from .graphs import CASTS, Graph
from .ranges import SILENT, Ranges

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .sizes import Cost
    from .tasks import Parts

FORWARD, BACKWARD, OPTIMIZER = "forward_pass", "backward_pass", "optimizer_step"
LEARNING_RATE = 1e-4
GRAPHING_MODES = ("reduce-overhead", "max-autotune")
"""Modes of torch.compile that replay CUDA graphs."""


class Workload:
    """A model with its data, ready to run step by step.

    Attributes:
        entry_name: as it was asked for.
        family: see `registry.Entry`.
        model: the nn.Module, on its device.
        backend: who computes it, see `Parts`.
        parameters: numbers in the model, counted.
        samples_per_step: samples of the last batch, read from its tensors; null before the first step.
        notes: what the user should know before the run, one sentence each.
        options: all options, with the defaults filled in.
    """

    def __init__(self, name: str, family: str, options: dict[str, Any], parts: Parts) -> None:
        self.entry_name, self.family, self.options, self.backend = name, family, options, parts.backend
        self.notes = parts.notes
        self.device = torch.device(options["device"])
        self.train: bool = options["train"]
        self._parts = parts
        if self.device.index is not None:
            torch.cuda.set_device(self.device)  # kernels of triton are launched on the current device
        _set_tf32(options["dtype"], self.device.type, self.notes)
        self.ranges = Ranges(nvtx=self.device.type == "cuda", inside=not options["compile"])
        self._channels_last: bool = options.get("channels_last", False)
        self.model = parts.model.to(self.device).train(self.train)
        if self._channels_last:
            self.model = self.model.to(memory_format=torch.channels_last)
        for module in self.model.modules():
            if getattr(module, "ranges", None) is SILENT:
                module.ranges = self.ranges
        self.parameters: int = sum(parameter.numel() for parameter in self.model.parameters())
        self.samples_per_step: int | None = None
        self._seen: set[int] = set()
        self._shapes: list[list[int]] = []
        self._autocast = None if parts.serves else CASTS.get(options["dtype"])
        self._parallel: str | None = options.get("parallel")
        self._callable = self.model
        if self._parallel is not None:
            self._callable = parallel.spread(self._parallel, self.model, self.device)
        if options["compile"]:
            self._callable = _compiled(self._callable, options["compile_mode"])
        self._pipeline = self._stage(options["batch"]) if self._parallel == "pipeline" else None
        self._optimizer: Any = None
        if self.train:
            self._optimizer = _optimizer(parallel.groups(self.model), options["optimizer"], options["cuda_graphs"])
        self._scaler = _scaler(self.device.type) if self.train and options["dtype"] == "fp16" else None
        self._graph = self._graph_of_step() if options["cuda_graphs"] and not parts.serves else None
        self._resident: Any = None
        self.keeps_result = False
        """Whether `result` is kept: it takes memory that a step by itself would not."""
        self.result: Any = None
        """The output of the last step, in training its loss."""

    @property
    def has_loader(self) -> bool:
        """Whether a DataLoader supplies the batches, because files or a number of workers (even 0) were asked for."""
        return self._parts.dataset is not None or self.options["workers"] is not None

    def make_batch(self) -> Any:
        """A new batch: a random one is on the device, one from a DataLoader on the host."""
        return self._laid_out(self._new_batch())

    def _new_batch(self) -> Any:
        batch = self.options["batch"]
        if self._parts.dataset is not None:
            return stacked([self._parts.dataset[n] for n in range(batch)])
        whole = self._parts.whole_batch
        made = whole(batch) if whole else stacked([self._parts.sample(n) for n in range(batch)])
        return made if self.has_loader else to_device(made, self.device)

    def batches(self) -> Iterator[Any]:
        """Yields batches without end: always the one made before the first step, or those of a DataLoader."""
        if self.has_loader:
            files, pin = self._parts.dataset, self.device.type == "cuda"
            dataset = Endless(self._parts.sample) if files is None else files
            yield from loader_batches(dataset, self.options, shuffle=files is not None, pin=pin)
        if self._resident is None:
            self._resident = self.make_batch()
        while True:
            yield self._resident

    def step(self, batch: Any) -> None:
        """Runs one step under named ranges; returns when the work is queued, not when the GPU is done."""
        batch = self._laid_out(to_device(batch, self.device, self.ranges))
        self._shapes, self.samples_per_step = shapes(batch), samples(batch)
        if self.samples_per_step is not None:
            self._seen.add(self.samples_per_step)
        run = self._graph or self._run
        result = run(batch)
        if self.keeps_result:
            self.result = result

    def recapture(self) -> bool:
        """Has the next step capture its CUDA graph anew; returns whether there is one."""
        graph = getattr(self, "_graph", None) or getattr(self.model, "graph", None)
        if graph is None:
            return False
        graph.forget()
        return True

    def apply_settings(self) -> None:
        """Sets TF32 as the number type asks for: the setting is the process's, and another workload may change it."""
        _set_tf32(self.options["dtype"], self.device.type, [])

    def flops_per_step(self) -> int | None:
        """FLOPs of a step with the observed batch (before the first step: the requested batch).

        2 per multiply-add of matrix products and convolutions, and the scan of Vision Mamba; three times the forward
        pass in training. `flops` says what else is and is not counted.
        """
        cost = self._cost()
        return None if cost is None else cost.flops

    def compulsory_bytes_per_step(self) -> int | None:
        """The least bytes that a step must move: used weights, batch and output once; in training AdamW's state too.

        See `flops`.
        """
        cost = self._cost()
        return None if cost is None else cost.compulsory_bytes

    def input_shapes(self, batch: Any) -> list[list[int]]:
        """The shape of every tensor in the batch."""
        return shapes(batch)

    def describe(self) -> dict[str, Any]:
        """What run.json keeps of the workload (`parsers.runs.manifest.Workload` has its keys); unknown is null.

        Best called after the steps, when it knows the observed batch.
        """
        return {
            "model": self.entry_name,
            "family": self.family,
            "backend": self.backend,
            "backend_versions": dict(self._parts.versions),
            "parameters": self.parameters,
            "device": str(self.device),
            "dtype": self.options["dtype"],
            "autocast": self._autocast is not None,
            "loss_scaling": self._scaler is not None,
            "tf32_matmul": torch.backends.cuda.matmul.allow_tf32,
            "tf32_cudnn": torch.backends.cudnn.allow_tf32,
            "train": self.train,
            "grad_enabled": self.train,
            "optimizer": "AdamW" if self.train else None,
            "compile": (self.options["compile_mode"] or "default") if self.options["compile"] else None,
            "seed": self.options["seed"],
            "data": self.options.get("data", "random"),
            "data_loader": self.has_loader,
            "workers": self.options["workers"] or 0 if self.has_loader else None,
            "pin_memory": self.has_loader and self.device.type == "cuda",
            "requested_batch": self.options["batch"],
            "batch": self.samples_per_step,
            "batches_seen": sorted(self._seen),
            "input_shapes": self._shapes,
            "flops_per_step": self.flops_per_step(),
            "compulsory_bytes_per_step": self.compulsory_bytes_per_step(),
            "options": dict(self.options),
            "ranges": list(self.ranges.seen),
            "notes": list(self.notes),
        }

    def leave(self) -> None:
        """Leaves the job of which this process is a rank, if it is one."""
        if self._parallel is not None:
            parallel.leave()

    def _stage(self, batch: int) -> parallel.Pipeline:
        """The pipeline whose stage `model` is; a micro-batch's loss is that of a batch."""
        return parallel.Pipeline(self._callable, self.device, batch, lambda out, to: self._parts.loss(out, (None, to)))

    def _cost(self) -> Cost | None:
        if self._parallel in ("pipeline", "tensor"):
            return None  # of the model's work this rank does a part
        each = 2 if self._autocast is not None else 4
        return self._parts.cost(self.samples_per_step or self.options["batch"], self.train, each)

    def _laid_out(self, batch: Any) -> Any:
        """The batch with its images in the memory format that was asked for."""
        if not self._channels_last:
            return batch

        def turned(tensor: Any) -> Any:
            return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor

        return mapped(batch, turned)

    def _graph_of_step(self) -> Any:
        def reset() -> None:
            if self._optimizer is not None:
                self._optimizer.zero_grad(set_to_none=True)

        return Graph(self._run, reset)

    def _run(self, batch: Any) -> Any:
        """The work of a step; returns its output, in training its loss."""
        if self.options["compile_mode"] in GRAPHING_MODES:
            # what earlier steps put out may be written over
            getattr(getattr(torch, "compiler", None), "cudagraph_mark_step_begin", lambda: None)()
        if self.train:
            return self._train(batch)
        with torch.inference_mode(), self.ranges(FORWARD), self._cast():
            return self._parts.forward(self._callable, batch)

    def _train(self, batch: Any) -> Any:
        optimizer = self._optimizer
        optimizer.zero_grad(set_to_none=True)
        if self._pipeline is not None:
            with self.ranges(parallel.STEP), self._cast():
                self._pipeline.step(*batch)
            with self.ranges(OPTIMIZER):
                optimizer.step()
            return None
        with self.ranges(FORWARD), self._cast():
            loss = self._parts.loss(self._parts.forward(self._callable, batch), batch)
        with self.ranges(BACKWARD):
            (loss if self._scaler is None else self._scaler.scale(loss)).backward()
        with self.ranges(OPTIMIZER):
            if self._scaler is None:
                optimizer.step()
            else:
                self._scaler.step(optimizer)
                self._scaler.update()
        return loss.detach()

    def _cast(self) -> Any:
        if self._autocast is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self._autocast)


def check_device(device: str) -> None:
    """Raises ModelError, in one line, if this torch does not see the device."""
    if not device.startswith("cuda"):
        return
    if not torch.cuda.is_available():
        built = torch.version.cuda
        why = f"built for CUDA {built}, which finds no usable GPU or driver" if built else "built without CUDA"
        raise ModelError(f"no CUDA device: this torch {torch.__version__} is {why}; --device cpu runs on the CPU")
    count = torch.cuda.device_count()
    if (torch.device(device).index or 0) >= count:
        raise ModelError(f"no device {device}: there {'is' if count == 1 else 'are'} {count}, counted from 0")


def _set_tf32(dtype: str, device: str, notes: list[str]) -> None:
    """Turns TF32 on for tf32 and off for fp32 (for convolutions too); other types keep PyTorch's defaults."""
    if device == "cpu":
        if dtype == "tf32":
            notes.append("tf32 means nothing on a CPU: this is fp32")
        return
    if dtype in ("fp32", "tf32"):
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        torch.backends.cudnn.allow_tf32 = dtype == "tf32"
    if dtype == "tf32" and torch.cuda.get_device_capability()[0] < 8:
        notes.append("this GPU has no TF32 (that came with Ampere): this is fp32")


def _compiled(model: Any, mode: str | None) -> Any:
    if not hasattr(torch, "compile"):
        raise ModelError(f"torch {torch.__version__} has no torch.compile; 2.0 and later have")
    return torch.compile(model) if mode is None else torch.compile(model, mode=mode)


def _optimizer(groups: list[dict[str, Any]], kind: str | None, in_graph: bool) -> Any:
    """AdamW in the form that was asked for; inside a CUDA graph its step count is on the GPU."""
    form = {None: {}, "loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}[kind]
    more = {"capturable": True} if in_graph else {}
    try:
        return torch.optim.AdamW(groups, lr=LEARNING_RATE, **form, **more)
    except (TypeError, RuntimeError) as error:
        raise ModelError(f"optimizer {kind}: {str(error).strip().splitlines()[0]}") from error


def _scaler(device: str) -> Any:
    """The gradient scaler, without which fp16 gradients underflow; it moved in torch 2.3."""
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler(device)
    return torch.cuda.amp.GradScaler() if device == "cuda" else None
