"""One input: what it is made of, what came of it, and what a format has to know."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Protocol

READ, NOTED, REFUSED = "read", "read, with notes", "refused in one line"
"""Outcomes; everything else is a find."""
SHAPED, BYTES = "shape", "bytes"


class Find(AssertionError):  # noqa: N818  what is found is the program's error, not the fuzzer's
    """What should not have happened; the message says what."""


@dataclass(frozen=True)
class Plan:
    """How an input is made: everything follows from it."""

    format: str
    seed: int
    number: int
    steps: tuple[tuple[str, int], ...]
    """(class of mutations, seed of this step)"""

    @property
    def key(self) -> str:
        return f"{self.seed}:{self.format}:{self.number}"

    def dice(self, purpose: str) -> Random:
        """Chance for one purpose, the same each time."""
        return random.Random(f"{self.key}:{purpose}")


class Doc(Protocol):
    """An input in the making."""

    def write(self, folder: Path) -> Path:
        """Writes it; returns what is opened."""
        ...


class Format(Protocol):
    """What the fuzzer needs of a format."""

    name: str
    shaped: Mapping[str, Any]
    """Mutations of the structure by class: functions of (doc, dice)."""
    bytewise: Mapping[str, Any]
    """Mutations of the bytes, which come last."""

    def prepare(self, folder: Path) -> None:
        """Reads the bases once."""
        ...

    def base(self, dice: Random) -> Any:
        """A base to change."""
        ...

    def examine(self, doc: Any, plan: Plan, folder: Path) -> str:
        """Reads the input and holds it to the oracle; returns an outcome or raises a `Find`."""
        ...


@dataclass
class Outcome:
    """What came of one input."""

    plan: Plan
    said: str
    find: str = ""
    """What is wrong, with the traceback where there is one."""
    signature: str = ""
    """What tells this find from others."""
    files: list[str] = field(default_factory=list)


def plan_of(format: Format, seed: int, number: int) -> Plan:
    """The plan of one input: mostly one or two steps; damaged bytes in every fourth."""
    dice = random.Random(f"{seed}:{format.name}:{number}:plan")
    count = dice.choice((1, 1, 1, 1, 2, 2, 3, 5))
    classes = [dice.choice(list(format.shaped)) for _ in range(count)]
    if format.bytewise and dice.random() < 0.25:
        classes = [*classes[: dice.randrange(2)], dice.choice(list(format.bytewise))]
    return Plan(format.name, seed, number, tuple((name, dice.randrange(1 << 32)) for name in classes))


def build(format: Format, plan: Plan) -> Any:
    """The input of a plan."""
    doc = format.base(plan.dice("base"))
    for name, seed in plan.steps:
        change = format.shaped.get(name) or format.bytewise[name]
        change(doc, random.Random(seed))
    return doc
