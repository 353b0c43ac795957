"""A model on several processes, each a rank: replicas, shards of its state, stages of its layers, or split layers.

Imports torch; `registry` imports this module when a model is built.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from .errors import ModelError, WrongOption

STEP = "pipeline_schedule"
"""The range around forward and backward of a pipeline, which alternate."""
_OF_GPT = "splits the blocks of a GPT: gpt_small, gpt_medium, …"


def join(device: str) -> str:
    """Joins the process group of the job; returns this rank's device, a GPU of its own where the job is on GPUs.

    Raises:
        ModelError: there is none to join, or the machine has fewer GPUs than ranks.
    """
    if not dist.is_available():
        raise ModelError("this torch was built without torch.distributed")
    if "RANK" not in os.environ:
        raise ModelError("no RANK in the environment: --ranks starts the processes of a job")
    if device == "cpu":
        dist.init_process_group("gloo")
        return device
    local, count = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if local >= count:
        raise ModelError(f"a rank needs a GPU of its own, and there are {count}: --ranks {count}, or --device cpu")
    own = torch.device("cuda", local)
    torch.cuda.set_device(own)
    dist.init_process_group("nccl", device_id=own)
    return str(own)


def leave() -> None:
    """Leaves the process group, if there is one."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def spread(kind: str, model: Any, device: Any) -> Any:
    """The model as this rank runs it; parts that other ranks have are gone afterwards.

    Args:
        kind: one of `options.PARALLEL`.
        model: an nn.Module on its device, the same on all ranks.
        device: that device.

    Raises:
        ModelError: this torch, or this model, can't be spread so.
    """
    rank, world = dist.get_rank(), dist.get_world_size()
    try:
        if kind == "ddp":
            from torch.nn.parallel import DistributedDataParallel

            return DistributedDataParallel(model, device_ids=None if device.type == "cpu" else [device])
        if kind == "fsdp":
            return _sharded(model)
        if kind == "tensor":
            return _split(model, device, world)
    except ImportError as error:
        raise ModelError(f"--parallel {kind} needs a newer torch: {error}") from error
    keep = getattr(model, "keep_stage", None)
    if keep is None:
        raise WrongOption(f"--parallel pipeline {_OF_GPT}")
    keep(rank, world)
    return model


def _sharded(model: Any) -> Any:
    """Each block is a unit of its own, gathered when it is needed; what is left is one more."""
    from torch.distributed.fsdp import fully_shard

    for child in model.children():
        if isinstance(child, (nn.ModuleList, nn.Sequential)):
            for block in child:
                if next(block.parameters(), None) is not None:
                    fully_shard(block)
    return fully_shard(model)


def _split(model: Any, device: Any, world: int) -> Any:
    """The heads of attention and the hidden numbers of the MLP divided among the ranks, as Megatron-LM does."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    if not hasattr(model, "keep_stage"):
        raise WrongOption(f"--parallel tensor {_OF_GPT}")
    heads = model.layers[0].attn.heads
    if heads % world:
        raise WrongOption(f"--parallel tensor divides {heads} heads among the ranks, and {world} does not divide them")
    mesh = init_device_mesh(device.type, (world,))
    for layer in model.layers:
        columns, rows = ("attn.qkv", "ffn.fc1"), ("attn.output", "ffn.fc2")
        plan = {**{name: ColwiseParallel() for name in columns}, **{name: RowwiseParallel() for name in rows}}
        parallelize_module(layer, mesh, plan)
        layer.attn.heads = heads // world
    return model


def groups(model: Any) -> list[dict[str, Any]]:
    """The model's parameters for an optimizer: split ones apart, since it can't mix them with others in one call."""
    kinds: dict[type, list[Any]] = {}
    for parameter in model.parameters():
        kinds.setdefault(type(parameter.data), []).append(parameter)
    return [{"params": parameters} for parameters in kinds.values()]


class Pipeline:
    """Runs forward and backward of one stage, micro-batch by micro-batch (1F1B)."""

    def __init__(self, model: Any, device: Any, batch: int, loss: Callable[[Any, Any], Any]) -> None:
        """Makes the schedule.

        Args:
            model: this rank's stage.
            device: where it is.
            batch: samples per step; split into at most twice as many micro-batches as there are stages.
            loss: (output, target) -> a scalar to minimise.
        """
        try:
            from torch.distributed.pipelining import PipelineStage, Schedule1F1B
        except ImportError as error:
            raise ModelError(f"--parallel pipeline needs a newer torch: {error}") from error
        self._rank, self._world = dist.get_rank(), dist.get_world_size()
        self.micro_batches = max(n for n in range(1, 2 * self._world + 1) if batch % n == 0)
        stage = PipelineStage(model, self._rank, self._world, device)
        self._schedule = Schedule1F1B(stage, self.micro_batches, loss_fn=loss)

    def step(self, inputs: Any, target: Any) -> None:
        """One batch: the first stage takes the inputs, the last one the target."""
        if self._rank == 0:
            self._schedule.step(inputs)
        elif self._rank == self._world - 1:
            self._schedule.step(target=target)
        else:
            self._schedule.step()
