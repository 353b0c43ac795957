"""Callbacks for trainers that record steps with `recording`: they take the same arguments."""

from __future__ import annotations

import atexit
import sys
from typing import Any

from .recording import recording


def lightning_callback(output: str, **options: Any) -> Any:
    """A callback for Lightning's `Trainer(callbacks=[…])`; a step is a batch of the training."""
    try:
        from lightning.pytorch import Callback
    except ImportError:  # its package before 2.0
        from pytorch_lightning import Callback

    class Recorded(Callback):
        """Records the steps of a fit."""

        record = recording(output, **options)

        def on_train_start(self, *_: Any) -> None:
            self.record.__enter__()

        def on_train_batch_end(self, *_: Any, **__: Any) -> None:
            self.record.step()

        def on_train_end(self, *_: Any) -> None:
            self.record.__exit__(None, None, None)

        def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
            self.record.__exit__(type(exception), exception, None)

    return Recorded()


def huggingface_callback(output: str, **options: Any) -> Any:
    """A callback for transformers' `Trainer(callbacks=[…])`; a step is an optimizer's, of all accumulated batches."""
    from transformers import TrainerCallback

    class Recorded(TrainerCallback):
        """Records the steps of a training."""

        record = recording(output, **options)

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            self.record.__enter__()
            atexit.register(self._ended)  # a training that fails calls nothing back

        def _ended(self) -> None:
            self.record.__exit__(None, getattr(sys, "last_value", None), None)

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.record.step()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            self.record.__exit__(None, None, None)

    return Recorded()
