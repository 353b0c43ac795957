"""A torch without a GPU that behaves as if it had one, and notes what is done in which order."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


class FakeTorch:
    """Puts modules called torch in place; `done` has what was asked of them."""

    def __init__(
        self, patch: pytest.MonkeyPatch, *, gpu: bool = True, sync_events: bool = True, cupti: bool = True
    ) -> None:
        self.done: list[str] = []
        self.exported: dict[str, dict[str, Any]] = {}
        self.hooks: list[Callable[..., None]] = []
        self.kept: list[dict[str, Any]] = []
        """What was written of an own program before its end."""
        self.initialized = gpu
        self.capturing = False
        self.reserved: Callable[[], int] = lambda: 0
        self.refuses: str | None = None
        """What a light recording fails with when it starts."""
        activity = SimpleNamespace(CPU="CPU", CUDA="CUDA")
        action = SimpleNamespace(RECORD="RECORD")
        cuda = self._module(
            is_available=lambda: gpu, is_initialized=lambda: self.initialized, Event=self._event(),
            synchronize=lambda: self.done.append("synchronize"), device_count=lambda: 0,
            is_current_stream_capturing=lambda: self.capturing, memory_reserved=lambda: self.reserved(),
        )  # fmt: skip
        profiler = self._module(
            ProfilerActivity=activity, ProfilerAction=action, profile=self._profiler(),
            schedule=lambda **how: how, supported_activities=lambda: {"CPU", "CUDA"} if cupti else {"CPU"},
        )  # fmt: skip
        settings = self._module(_ExperimentalConfig=self._config(sync_events))
        nn = self._module(Module=self._neural_module())
        modules = {
            "torch": self._module(
                nn=nn,
                cuda=cuda,
                profiler=profiler,
                __version__="0",
                version=SimpleNamespace(),
                backends=SimpleNamespace(),
            ),
            "torch.cuda": cuda,
            "torch.profiler": profiler,
            "torch._C": self._module(_profiler=settings),
            "torch._C._profiler": settings,
            "torch.nn": nn,
            "torch.optim": self._module(Optimizer=self.Optimizer),
            "torch.optim.optimizer": self._module(register_optimizer_step_post_hook=self.hooks.append),
        }
        for name, module in modules.items():
            patch.setitem(__import__("sys").modules, name, module)

    class Optimizer:
        """What a program that trains has one of."""

    @staticmethod
    def _neural_module() -> Any:
        class Module:
            def __init__(self) -> None:
                self.hooks: list[Callable[..., None]] = []

            def register_forward_hook(self, hook: Callable[..., None]) -> None:
                self.hooks.append(hook)

            def __call__(self, *args: Any) -> Any:
                result = self.forward(*args)  # type: ignore[attr-defined]
                for hook in list(self.hooks):
                    hook(self, args, result)
                return result

        return Module

    @staticmethod
    def _module(**names: Any) -> Any:
        module = ModuleType("torch")
        module.__dict__.update(names)
        return module

    @staticmethod
    def _config(known: bool) -> Any:
        def make(**options: Any) -> Any:
            if not known:
                raise TypeError("unknown option")
            return options

        return make

    def _event(self) -> Any:
        fake = self

        class Event:
            def __init__(self, *, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at = time.perf_counter_ns()
                fake.done.append("event")

            def elapsed_time(self, after: Event) -> float:
                return (after.at - self.at) / 1e6

        return Event

    def _profiler(self) -> Any:
        fake = self

        class Profile:
            def __init__(self, *, activities: list[str], on_trace_ready: Any = None, **options: Any) -> None:
                self.name = "light" if "CPU" not in activities else "rich"
                self.metadata: dict[str, Any] = {}
                self.options = options
                self._ready = on_trace_ready

            def start(self) -> None:
                if self.name == "light" and fake.refuses is not None:
                    raise RuntimeError(fake.refuses)
                fake.done.append(f"start {self.name}")
                self.running = True

            def stop(self) -> None:
                fake.done.append(f"stop {self.name}")
                self.running = False
                if self._ready is not None:
                    self._ready(self)

            def __enter__(self) -> Profile:
                self.start()
                return self

            def __exit__(self, *_: object) -> None:
                self.stop()

            def step(self) -> None:
                fake.done.append(f"next {self.name}")

            def add_metadata_json(self, key: str, value: str) -> None:
                assert self.running  # Kineto forgets what comes later
                self.metadata[key] = json.loads(value)

            def export_chrome_trace(self, path: str) -> None:
                assert not self.running
                fake.exported[Path(path).name] = {**self.options, **self.metadata}
                Path(path).write_text("{}")

        return Profile

    def phases(self) -> list[str]:
        """What was done, equal things in a row once."""
        return [what for n, what in enumerate(self.done) if not n or self.done[n - 1] != what]
