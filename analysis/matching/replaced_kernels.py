"""Which kernels of one run stand where another run's kernels stood: in the same call of the same operator.

A kernel that only one run has is not paired by its name (`kernel_pairs`). Here its launches are: calls of an operator
are taken in the order of a step, and the kernels inside two calls are laid beside each other, between those that both
runs have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import polars as pl

from tracetui.analysis.kernels import kernel_rows
from tracetui.analysis.selection import Selection
from tracetui.parsers.names import kernel_names

Edge = tuple[str, str]

MOST_LAUNCHES = 2000
"""Calls that launch more are not laid side by side: that takes a time that grows with their product."""
LEAST_SHARE = 0.5
"""The share of a kernel's launches in a step that must stand where its partners' stood."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """Kernels of A that kernels of B replaced, mostly one by one."""

    a_names: tuple[str, ...]
    """Those with the most launches in these places first."""
    b_names: tuple[str, ...]
    operator: str
    """The operator that launches most of them."""


def replacements(
    a: Selection, b: Selection, gone: Iterable[str], new: Iterable[str], both: Mapping[str, str]
) -> list[Replacement]:
    """Pairs kernels that only one run has by the operator calls that launch them, in the last step of each run.

    Each kernel belongs to the one that it shares most places with. So one may stand for several, where a library splits
    its work otherwise. Of each, at least half of the launches must stand in the place of its partners.

    Args:
        a: the base, recorded with operators.
        b: what is compared with it.
        gone: kernels that only A has.
        new: kernels that only B has.
        both: for the other names of B, A's names of these kernels.
    """
    only_a, only_b = set(gone), set(new)
    if not only_a or not only_b:
        return []
    ours, theirs = (_calls(sel, only) for sel, only in ((a, only_a), (b, only_b)))
    edges: Counter[Edge] = Counter()
    by_operator: dict[Edge, Counter[str]] = {}
    for operator in sorted(ours.keys() & theirs.keys()):
        found = _places(ours[operator], theirs[operator], only_a, only_b, both)
        for edge, count in found.items():
            edges[edge] += count
            by_operator.setdefault(edge, Counter())[operator] += count
    counts = [_launches(calls, only) for calls, only in ((ours, only_a), (theirs, only_b))]
    return _groups(_strongest(edges, counts[0], counts[1]), edges, by_operator)


def _calls(sel: Selection, only: set[str]) -> dict[str, list[tuple[str, ...]]]:
    """By operator the kernels of each of its calls, in order, in the last step that launched any of `only`."""
    rows = kernel_rows(sel).filter(pl.col("operator").is_not_null())
    rows = rows.select("step", "operator", "start", "launch", pl.col("name").cast(pl.String))
    wanted = rows.filter(pl.col("name").is_in(list(only)))
    if wanted.is_empty():
        return {}
    last = wanted["step"].max()
    if last is not None:
        rows, wanted = (frame.filter(pl.col("step") == last) for frame in (rows, wanted))
    host = sel.trace.host
    begun = host["start"]
    rows = rows.with_columns(
        begun.gather(rows["operator"]).alias("begin"),
        begun.gather(rows["launch"]).alias("launched"),
        host["name"].gather(rows["operator"]).cast(pl.String).alias("of"),
    )
    rows = rows.join(rows.filter(pl.col("name").is_in(list(only))).select("of").unique(), on="of", how="semi")
    calls = (
        rows.sort(pl.coalesce("launched", "start"), "start")
        .group_by("of", "operator", "begin", maintain_order=True)
        .agg("name")
        .sort("begin", "operator")
    )
    found: dict[str, list[tuple[str, ...]]] = {}
    for operator, names in calls.select("of", "name").iter_rows():
        found.setdefault(operator, []).append(tuple(names))
    return found


def _launches(calls: Mapping[str, Sequence[Sequence[str]]], only: set[str]) -> Counter[str]:
    return Counter(name for each in calls.values() for names in each for name in names if name in only)


def _places(
    ours: Sequence[tuple[str, ...]],
    theirs: Sequence[tuple[str, ...]],
    only_a: set[str],
    only_b: set[str],
    both: Mapping[str, str],
) -> Counter[Edge]:
    """How often a kernel of B stands where one of A stood, in calls of one operator."""
    if len(ours) != len(theirs):
        return _of_unlike_calls(ours, theirs, only_a, only_b)
    found: Counter[Edge] = Counter()
    for (before, after), count in Counter(zip(ours, theirs, strict=True)).items():
        for edge in _inside(before, after, only_a, only_b, both):
            found[edge] += count
    return found


def _of_unlike_calls(
    ours: Iterable[Sequence[str]], theirs: Iterable[Sequence[str]], only_a: set[str], only_b: set[str]
) -> Counter[Edge]:
    """Where one run calls an operator more often, only what is the one kernel of its kind there tells."""
    left, right = (
        Counter(name for names in calls for name in names if name in only)
        for calls, only in ((ours, only_a), (theirs, only_b))
    )
    found: Counter[Edge] = Counter()
    for before, after in _by_category([*left], [*right]):
        if len(before) == 1 or len(after) == 1:
            found.update({(one, two): min(left[one], right[two]) for one in before for two in after})
    return found


def _inside(
    before: Sequence[str], after: Sequence[str], only_a: set[str], only_b: set[str], both: Mapping[str, str]
) -> list[Edge]:
    """The pairs of one call and the call that stands for it."""
    if max(len(before), len(after)) > MOST_LAUNCHES:
        return []
    # what only one run has equals nothing in the other
    known = [f"a {name}" if name in only_a else name for name in before]
    other = [f"b {name}" if name in only_b else both.get(name, name) for name in after]
    found: list[Edge] = []
    for tag, a_from, a_to, b_from, b_to in SequenceMatcher(None, known, other, autojunk=False).get_opcodes():
        if tag != "replace":
            continue
        left = [name for name in before[a_from:a_to] if name in only_a]
        right = [name for name in after[b_from:b_to] if name in only_b]
        if len(left) == len(right) == 1:
            found.append((left[0], right[0]))
            continue
        for ours, theirs in _by_category(left, right):
            if len(ours) == len(theirs):
                found += zip(ours, theirs, strict=True)
            elif 1 in (len(ours), len(theirs)):
                found += [(one, two) for one in ours for two in theirs]
    return found


def _by_category(left: Sequence[str], right: Sequence[str]) -> list[tuple[list[str], list[str]]]:
    sides: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
    for side, names in zip(sides, (left, right), strict=True):
        for name in names:
            side.setdefault(kernel_names.category(name), []).append(name)
    return [(sides[0][kind], sides[1][kind]) for kind in sides[0] if kind in sides[1]]


def _strongest(edges: Counter[Edge], a_launches: Counter[str], b_launches: Counter[str]) -> set[Edge]:
    """Each kernel with the one that it shares most places with, if most launches of both have partners."""
    best: dict[tuple[int, str], tuple[int, Edge]] = {}
    for edge, count in sorted(edges.items()):
        for side in (0, 1):
            if count > best.get((side, edge[side]), (0, edge))[0]:
                best[side, edge[side]] = count, edge
    chosen = {edge for _, edge in best.values()}
    while True:
        shared: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        for edge in chosen:
            for side in (0, 1):
                shared[side][edge[side]] += edges[edge]
        kept = {
            (ours, theirs)
            for ours, theirs in chosen
            if shared[0][ours] >= LEAST_SHARE * a_launches[ours]
            if shared[1][theirs] >= LEAST_SHARE * b_launches[theirs]
        }
        if kept == chosen:
            return kept
        chosen = kept


def _groups(chosen: set[Edge], edges: Counter[Edge], by_operator: Mapping[Edge, Counter[str]]) -> list[Replacement]:
    """The connected kernels, as one replacement each."""
    group: dict[tuple[int, str], set[Edge]] = {}
    for edge in sorted(chosen):
        joined = {edge}
        for node in enumerate(edge):
            joined |= group.get(node, set())
        for each in joined:
            for node in enumerate(each):
                group[node] = joined
    groups = []
    for joined in {id(members): members for members in group.values()}.values():
        weights: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        operators: Counter[str] = Counter()
        for edge in joined:
            for side in (0, 1):
                weights[side][edge[side]] += edges[edge]
            operators += by_operator[edge]
        a_names, b_names = (tuple(sorted(side, key=lambda name: (-side[name], name))) for side in weights)
        groups.append(Replacement(a_names, b_names, min(operators, key=lambda name: (-operators[name], name))))
    return sorted(groups, key=lambda one: one.a_names)
