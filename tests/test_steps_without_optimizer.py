"""Programs without an optimizer: the module whose calls are their steps."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
from fake_torch import FakeTorch

from tracetui.collectors.child import script


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    FakeTorch(monkeypatch)
    return sys.modules["torch"]


class Watched:
    """A program whose calls of modules are watched."""

    def __init__(self, torch: Any) -> None:
        class Net(torch.nn.Module):
            def __init__(self, name: str, *inner: Any) -> None:
                super().__init__()
                self.name, self.inner = name, inner

            def forward(self) -> None:
                for each in self.inner:
                    each()

        self.net = Net
        self.original = torch.nn.Module.__call__
        self.found: list[Any] = []
        self.watch = script.Watch(self.found.append)

    def calls(self, nets: dict[str, Any], order: str) -> list[str]:
        """Calls modules in this order; returns the names of what was found."""
        for name in order:
            nets[name]()
        return [net.name for net in self.found]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("a" * 7, []),
        ("a" * 8, ["a"]),
        ("edededed", ["e"]),  # an encoder and its decoder: a step begins anew with the encoder
        ("eddddddd", ["d"]),  # a decoder that makes token after token
        ("dcccdccc", ["d"]),  # what a detector found is classified, one after the other
        ("abcdefgh", []),
        ("abcdefghefgh", ["e"]),
    ],
)
def test_the_module_that_repeats(torch: Any, order: str, expected: list[str]) -> None:
    program = Watched(torch)
    assert program.calls({name: program.net(name) for name in "abcdefgh"}, order) == expected
    assert (torch.nn.Module.__call__ is program.original) == bool(expected)


def test_modules_within_a_module_are_not_counted(torch: Any) -> None:
    program = Watched(torch)
    inner = program.net("i")
    outer = program.net("o", inner, inner, inner)
    assert program.calls({"i": inner, "o": outer}, "ooooooo") == []
    assert program.calls({"i": inner, "o": outer}, "o") == ["o"]


def test_a_call_that_fails_ends_as_well(torch: Any) -> None:
    program = Watched(torch)

    class Fails(torch.nn.Module):
        def forward(self) -> None:
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        Fails()()
    assert program.calls({"a": program.net("a")}, "a" * 8) == ["a"]


def test_replicas_in_other_threads_are_not_counted(torch: Any) -> None:
    program = Watched(torch)
    worker = threading.Thread(target=program.calls, args=({"a": program.net("a")}, "a" * 20))
    worker.start()
    worker.join()
    assert program.found == []


def test_a_program_that_has_an_optimizer_is_followed_by_its_steps(torch: Any) -> None:
    program = Watched(torch)

    class Adam(sys.modules["torch.optim"].Optimizer):  # type: ignore[name-defined,misc]
        pass

    kept = Adam()
    assert program.calls({"a": program.net("a")}, "a" * 20) == []
    assert torch.nn.Module.__call__ is program.original
    del kept


def test_a_module_compiled_in_place_is_followed_outside_of_what_was_compiled(torch: Any) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self._compiled_call_impl = lambda number: number + 1

    net, done = Net(), []
    script.after_each_call(net, lambda: done.append("step"))
    assert net._compiled_call_impl(1) == 2
    assert done == ["step"]
    assert net.hooks == []


def test_what_the_program_itself_changes_of_modules_stays(torch: Any) -> None:
    program = Watched(torch)
    net, watched = program.net("a"), torch.nn.Module.__call__
    torch.nn.Module.__call__ = own = lambda *args: watched(*args)
    assert program.calls({"a": net}, "a" * 12) == ["a"]
    assert torch.nn.Module.__call__ is own
