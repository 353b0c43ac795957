"""Shortens the module tree: instances of one class under one parent become one line, ``Block ×24``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tracetui.analysis.base.json_values import Json


NOT_ATTRIBUTED = "(not attributed)"
"""The row of the report for time that belongs to no module."""


class Mean(Struct):
    """The mean of shares, each weighted by the time that it is of."""

    weight: float = 0.0
    total: float = 0.0

    unknown: bool = False

    def add(self, percent: float | None, weight: float | None) -> None:
        """Adds a share and the time that it is of; if a share of any time is unknown, so is the mean."""
        if weight:
            self.weight += weight
            self.total += (percent or 0.0) * weight
            self.unknown |= percent is None

    @property
    def percent(self) -> float | None:
        """The mean; None where it can't be known."""
        return self.total / self.weight if self.weight and not self.unknown else None


class MergedModule(Struct):
    """Several module instances that share their class and their ancestors' classes."""

    class_name: str
    depth: int
    instances: int = 0
    paths: list[str] = field(default_factory=list)
    """Of all of them."""
    calls: int = 0
    host_total_us: float | None = None
    """Null if the trace does not give it for any instance."""
    device_self_us: float = 0.0
    device_total_us: float = 0.0
    backward_us: float = 0.0
    """GPU time of its backward pass, with that of modules inside."""
    occupancy: Mean = field(default_factory=lambda: Mean())
    tensor_core: Mean = field(default_factory=lambda: Mean())

    @property
    def gpu_us(self) -> float:
        """GPU time of both passes."""
        return self.device_total_us + self.backward_us

    @property
    def label(self) -> str:
        """``Block ×24``; a single instance is named without a count."""
        return f"{self.class_name} ×{self.instances}" if self.instances > 1 else self.class_name


class MergedTree(Struct, frozen=True):
    """The lines to show, depth first, and how many there are in all."""

    shown: tuple[MergedModule, ...]
    whole: int
    not_attributed_percent: float | None
    """Share of GPU time that belongs to no module; None without GPU time."""

    @property
    def has_backward(self) -> bool:
        """Whether any GPU time is known to belong to a backward pass."""
        return any(node.backward_us for node in self.shown)


def merged_tree(rows: Iterable[Json], limit: int | None = None) -> MergedTree:
    """Merges the report's module rows; of more than `limit` lines, those with most GPU (else host) time stay.

    A module holds at least its children's time, so what stays is a tree again.
    """
    merged: dict[tuple[str, ...], MergedModule] = {}
    for row in rows:
        key = tuple(_class_name(part) for part in row["path"].split("/"))
        node = merged.setdefault(key, MergedModule(row["class_name"] or row["name"], len(key) - 1))
        node.instances += 1
        node.paths.append(row["path"])
        node.calls += row["calls"] or 0
        if row["host_total_us"] is not None:
            node.host_total_us = (node.host_total_us or 0.0) + row["host_total_us"]
        node.device_self_us += row["device_self_us"] or 0
        node.device_total_us += row["device_total_us"] or 0
        node.backward_us += row["backward_device_us"] or 0
        node.occupancy.add(row.get("occupancy_percent"), row.get("known_occupancy_us"))
        node.tensor_core.add(row.get("tensor_core_percent"), row.get("kernel_us"))
    nodes = _depth_first(merged)
    roots = [node for node in nodes if not node.depth]
    gpu = sum(node.gpu_us for node in roots)
    lost = sum(node.gpu_us for node in roots if node.class_name == NOT_ATTRIBUTED)
    shown = nodes
    if limit is not None and len(nodes) > limit:
        ranked = sorted(range(len(nodes)), key=lambda n: (-nodes[n].gpu_us, -(nodes[n].host_total_us or 0), n))
        shown = [nodes[n] for n in sorted(ranked[:limit])]
    return MergedTree(tuple(shown), len(nodes), 100 * lost / gpu if gpu else None)


def merged_work(kernels: Iterable[Json]) -> dict[str, list[Json]]:
    """The rows of `module_kernels` by path."""
    found: dict[str, list[Json]] = {}
    for row in kernels:
        found.setdefault(row["path"], []).append(row)
    return found


def work_below(by_path: Mapping[str, list[Json]], paths: Iterable[str], limit: int | None) -> list[tuple[int, Json]]:
    """What these instances launched, by operator and kernel, each with how far below the module it stands.

    Args:
        by_path: of `merged_work`.
        paths: those of the instances.
        limit: at most so many kernels, those that take most time; a line for each operator, and one for all other
            operators, have the sums of the rest, so that all adds up.
    """
    merged: dict[tuple[str, str, str], Json] = {}
    for path in paths:
        for row in by_path.get(path, ()):
            key = row["operator"], row["name"], row["category"]
            known = merged.setdefault(key, {**row, **dict.fromkeys(_SUMMED, 0)})
            known |= {name: known[name] + row[name] for name in _SUMMED}
    ranked = sorted(merged.values(), key=lambda row: (-_time(row), row["name"]))
    shown = ranked[: limit or None]
    operators = list(dict.fromkeys(row["operator"] for row in shown))
    found: list[tuple[int, Json]] = []
    for operator in operators:
        rows = [row for row in ranked if row["operator"] == operator]
        listed = [row for row in rows if row in shown]
        found.append((1, {"label": operator, **_summed(rows)}))
        found += [(2, {"label": f"- {row['short_name'] or row['name']}", **_summed([row])}) for row in listed]
        found += _rest(2, rows[len(listed) :])
    return found + _rest(1, [row for row in ranked if row["operator"] not in operators])


def _rest(depth: int, rows: Sequence[Json]) -> list[tuple[int, Json]]:
    return [(depth, {"label": f"- {len(rows)} more", **_summed(rows)})] if rows else []


_SUMMED = ("calls", "device_us", "backward_device_us")


def _time(row: Json) -> float:
    both: float = row["device_us"] + row["backward_device_us"]
    return both


def _summed(rows: Iterable[Json]) -> Json:
    listed = list(rows)
    return {name: sum(row[name] for row in listed) for name in _SUMMED}


def merged_changes(rows: Iterable[Json]) -> list[Json]:
    """The diff's module rows, the instances of one class under the same classes merged.

    Each is named by its last two classes (``Mixer/Mamba ×48``); the largest difference comes first.
    """
    merged: dict[tuple[str, ...], list[Json]] = {}
    for row in rows:
        merged.setdefault(tuple(_class_name(part) for part in row["name"].split("/")), []).append(row)
    found = []
    for key, same in merged.items():
        statuses = {row["status"] for row in same}
        numbers = {
            name: sum(row[name] or 0 for row in same) for name in ("a_calls", "b_calls", "a_us", "b_us", "delta_us")
        }
        count = f" ×{len(same)}" if len(same) > 1 else ""
        status = statuses.pop() if len(statuses) == 1 else "changed"
        found.append({"name": "/".join(key[-2:]) + count, "status": status, **numbers})
    return sorted(found, key=lambda row: (-abs(row["delta_us"]), row["name"]))


def _class_name(part: str) -> str:
    """``Mamba`` of ``Mamba_3``: Kineto numbers the instances of a class."""
    name, _, number = part.rpartition("_")
    return name if name and number.isdecimal() else part


def _depth_first(merged: dict[tuple[str, ...], MergedModule]) -> list[MergedModule]:
    """Parents before children, siblings by first appearance: merging can bring a child before an elder's sibling."""
    order = {key: n for n, key in enumerate(merged)}

    def place(key: tuple[str, ...]) -> list[int]:
        return [order.get(key[: n + 1], len(order)) for n in range(len(key))]

    return [merged[key] for key in sorted(merged, key=place)]
