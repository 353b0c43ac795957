"""Finds which files of a folder belong to one run.

Ranks of one world are one run; files of different tools are where their kernels match by half or more; a memory
snapshot belongs to the run it lies beside. What is left are runs of their own.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import combinations
from typing import TYPE_CHECKING

from msgspec import Struct, field

from tracetui.parsers.tool_registry import WITHOUT_KERNELS, WITHOUT_TIME_LINE, tool_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tracetui.parsers.runs.detect import Candidate

LEAST_SHARED = 0.5
"""Share of the kernels of the file with fewer of them that two files of one run have in common."""
_SUFFIXES = re.compile(r"(\.(\d{13,19}|pt|trace|json|gz|sqlite3?|db|csv|txt|log|pickle|pkl|nsys-rep|ncu-rep|qdrep))+$")
_WORD = re.compile(r"[a-z]+|\d+")
_SAYS_NOTHING = frozenset(
    {"trace", "rank", "memory", "mem", "snapshot", "cuda", "profile", "prof", "output", "run", "nsys", "ncu", "raw"}
)
"""Words that don't distinguish runs."""


class _Unit(Struct):
    """Files that belong together, of at most one tool each until units are joined."""

    candidates: list[Candidate]
    place: int
    """Where the first of them stood among all: the newest come first."""
    tools: set[str] = field(default_factory=set)

    @property
    def first(self) -> Candidate:
        return self.candidates[0]


def group(candidates: Sequence[Candidate], kernels_of: Callable[[Candidate], frozenset[str]]) -> list[list[Candidate]]:
    """The runs among the files of a folder: those with a time line first, then in the order of each one's first file.

    Args:
        candidates: the files, the newest first.
        kernels_of: the keys of a file's kernels (`kernel_peek`); empty where they can't be told. Called once for each
            file that may share a run with one of another tool, and never where all are of one tool.

    Two files of one tool are never one run, unless they are ranks of one world. Of several that match a file of
    another tool, it goes to one of its own folder, then to the one that matches best, then to the one whose name is
    nearest, then to the newest.
    """
    units = _over_nodes(_worlds([c for c in candidates if _tool(c) not in WITHOUT_KERNELS], candidates))
    if len({tool for unit in units for tool in unit.tools}) > 1:
        units = _joined(units, kernels_of)
    for snapshot in _worlds([c for c in candidates if _tool(c) in WITHOUT_KERNELS], candidates):
        home = _home(snapshot, units)
        if home is None:
            units.append(snapshot)
        else:
            home.candidates += snapshot.candidates
            home.tools |= snapshot.tools
            home.place = min(home.place, snapshot.place)
    return [unit.candidates for unit in sorted(units, key=lambda unit: (unit.tools <= WITHOUT_TIME_LINE, unit.place))]


def _tool(candidate: Candidate) -> str:
    return tool_of(candidate.kind)


def _worlds(chosen: Iterable[Candidate], every: Sequence[Candidate]) -> list[_Unit]:
    """Files as units: ranks of one world that one tool wrote into one folder, or one each, until a rank repeats.

    Files that are called alike but for the rank are of one unit before others are: of two jobs in a folder, one may
    lack a rank that the other has.
    """
    places = {id(candidate): place for place, candidate in enumerate(every)}
    chosen = list(chosen)
    sizes: dict[tuple[object, ...], set[int]] = {}
    for candidate in chosen:
        if candidate.rank is not None and candidate.world_size:
            sizes.setdefault(_kin(candidate), set()).add(candidate.world_size)
    families: dict[tuple[tuple[object, ...], str, int], list[Candidate]] = {}
    for candidate in chosen:
        number = 0
        world: tuple[object, ...] = (candidate.path,)
        if candidate.rank is not None and candidate.world_size != 1:
            # a file that says nothing, as an empty one, is of the world of those that are called like it
            told = sizes.get(_kin(candidate), set())
            size = candidate.world_size or (next(iter(told)) if len(told) == 1 else candidate.family)
            world = (candidate.beside, _tool(candidate), size)
        while any(other.rank == candidate.rank for other in families.get((world, candidate.family, number), ())):
            number += 1
        families.setdefault((world, candidate.family, number), []).append(candidate)
    worlds: dict[object, list[tuple[_Unit, set[int | None]]]] = {}
    by_size = sorted(families.items(), key=lambda item: (len(item[1]) == 1, places[id(item[1][0])]))
    for (world, _, _), family in by_size:
        ranks = {candidate.rank for candidate in family}
        home = next((found for found in worlds.get(world, ()) if not found[1] & ranks), None)
        if home is None:
            home = _Unit([], places[id(family[0])], {_tool(family[0])}), set()
            worlds.setdefault(world, []).append(home)
        home[0].candidates += family
        home[1].update(ranks)
    for found in worlds.values():
        for unit, _ in found:
            unit.candidates.sort(key=lambda candidate: places[id(candidate)])
            unit.place = places[id(unit.first)]
            # a rank's second recording comes after the job that it is of
            unit.place = max(unit.place, found[0][0].place) if len(unit.candidates) == 1 else unit.place
    return sorted((unit for found in worlds.values() for unit, _ in found), key=lambda unit: unit.place)


def _kin(candidate: Candidate) -> tuple[object, ...]:
    """The same for files of one folder, tool and way of naming."""
    return candidate.beside, _tool(candidate), candidate.family


def _over_nodes(units: list[_Unit]) -> list[_Unit]:
    """Joins the ranks of one world that lie in a folder per node: ``node0/rank0``, ``node1/rank8``.

    The folders differ in one name of their paths, and no rank is in two of them: folders of several runs each have a
    rank 0.
    """
    for level in (lambda unit: None, lambda unit: unit.first.path.parent.parent):
        worlds: dict[tuple[object, ...], list[_Unit]] = {}
        for unit in units:
            if unit.first.rank is not None and (unit.first.world_size or 0) > 1:
                worlds.setdefault((_tool(unit.first), unit.first.world_size, level(unit)), []).append(unit)
        for together in worlds.values():
            ranks = [candidate.rank for unit in together for candidate in unit.candidates]
            if len(together) > 1 and len(set(ranks)) == len(ranks) and _differ_in_one_name(together):
                home, *guests = sorted(together, key=lambda unit: unit.place)
                home.candidates += [candidate for guest in guests for candidate in guest.candidates]
                units = [unit for unit in units if all(unit is not guest for guest in guests)]
    return units


def _differ_in_one_name(units: Sequence[_Unit]) -> bool:
    """Whether the folders of these units have the same path but for one folder's name."""
    paths = [unit.first.path.parent.parts for unit in units]
    same_depth = len({len(parts) for parts in paths}) == 1
    return same_depth and sum(len(set(names)) > 1 for names in zip(*paths, strict=True)) == 1


def _joined(units: list[_Unit], kernels_of: Callable[[Candidate], frozenset[str]]) -> list[_Unit]:
    """Units of different tools joined where their kernels match: those of one folder, then the best matches first."""
    kernels = {id(unit): kernels_of(unit.first) for unit in units}
    pairs: list[tuple[bool, float, float, int, _Unit, _Unit]] = []
    for left, right in combinations(units, 2):
        if left.tools == right.tools:
            continue
        shared = _shared(kernels[id(left)], kernels[id(right)])
        if shared >= LEAST_SHARED:
            apart = left.first.path.parent != right.first.path.parent
            likeness = _likeness(left.first, right.first)
            pairs.append((apart, -shared, -likeness, left.place + right.place, left, right))
    run_of = {id(unit): unit for unit in units}
    for *_, left, right in sorted(pairs, key=lambda pair: pair[:4]):
        home, guest = sorted((run_of[id(left)], run_of[id(right)]), key=lambda unit: unit.place)
        if home.tools & guest.tools:
            continue
        home.candidates += guest.candidates
        home.tools |= guest.tools
        run_of.update({name: home for name, unit in run_of.items() if unit is guest})
    return list({id(unit): unit for unit in run_of.values()}.values())


def _shared(left: frozenset[str], right: frozenset[str]) -> float:
    """Share of the kernels of the file with fewer that the other has too.

    Where one of them gives the functions' bare names only (``ncu --kernel-name-base function``), those are compared.
    """
    if any("<" in key for key in left) != any("<" in key for key in right):
        left, right = frozenset(map(_bare, left)), frozenset(map(_bare, right))
    fewer = min(len(left), len(right))
    return len(left & right) / fewer if fewer else 0.0


def _bare(key: str) -> str:
    """A function's own name out of its key: ``run`` of ``Agent<f::g>::run<3>``."""
    depth, begin, end = 0, 0, None
    for place, letter in enumerate(key):
        if letter in "<({[":
            end = place if not depth and end is None else end
            depth += 1
        elif letter in ">)}]":
            depth -= 1
        elif letter == ":" and not depth:
            begin, end = place + 1, None
    return key[begin:end]


def _home(snapshot: _Unit, units: list[_Unit]) -> _Unit | None:
    """The run that a memory snapshot belongs to: the only one of its folder, else the one with the nearest name."""
    recorded = [unit for unit in units if not unit.tools <= WITHOUT_KERNELS]
    folder = snapshot.first.path.parent
    beside = [unit for unit in recorded if any(c.path.parent == folder for c in unit.candidates)] or recorded
    if len(beside) == 1:
        return None if snapshot.tools & beside[0].tools else beside[0]
    words = _words(snapshot.first)
    named = [
        (max(_likeness(snapshot.first, c) for c in unit.candidates), -unit.place, unit)
        for unit in beside
        if not snapshot.tools & unit.tools and any(words & _words(c) for c in unit.candidates)
    ]
    return max(named, key=lambda entry: entry[:2])[2] if named else None


def _stem(candidate: Candidate) -> str:
    return _SUFFIXES.sub("", candidate.path.name.lower())


def _words(candidate: Candidate) -> set[str]:
    return set(_WORD.findall(_stem(candidate))) - _SAYS_NOTHING


def _likeness(left: Candidate, right: Candidate) -> float:
    """How similar two names are, 0 to 1."""
    return SequenceMatcher(None, _stem(left), _stem(right), autojunk=False).ratio()
