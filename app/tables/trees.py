"""Shortens trees: instances of a module's class, and ranges that differ only by a number, become one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, convert, field
from msgspec.structs import replace

from tracetui.analysis.base.json_values import Json
from tracetui.app.text.names import told_apart, without_number

NOT_ATTRIBUTED = "(not attributed)"
"""The row of the report for time that belongs to no module."""


class TreeRow(Struct, frozen=True):
    """A module or a range of the report, as far as its tree shows it; None is what is not known."""

    name: str
    path: str
    depth: int = 0
    domain: str | None = None
    class_name: str | None = None
    calls: int | None = None
    host_total_us: float | None = None
    device_self_us: float | None = None
    device_total_us: float | None = None
    backward_device_us: float | None = None
    device_meanwhile_us: float | None = None
    occupancy_percent: float | None = None
    known_occupancy_us: float | None = None
    tensor_core_percent: float | None = None
    kernel_us: float | None = None

    @property
    def spelled(self) -> str:
        """A range by its domain and name."""
        return spelled(self.domain, self.name)


def tree_rows(rows: Iterable[Json]) -> list[TreeRow]:
    """The report's rows of `modules` or `range_tree`."""
    return convert(list(rows), list[TreeRow])


def spelled(domain: str | None, name: str) -> str:
    """``domain:name``; the name alone where the domain is the default one or there are none."""
    return f"{domain}:{name}" if domain else name


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


class Merged(Struct):
    """Several modules of one class, or ranges whose names differ only by numbers, below the same ancestors."""

    name: str
    """The first one's own."""
    base: str
    """The same without its number."""
    depth: int
    names: set[str] = field(default_factory=set)
    """What they are told apart by: paths of modules, names of ranges, of which only the ancestors may have numbers."""
    paths: list[str] = field(default_factory=list)
    """The paths of all of them."""
    calls: int | None = None
    """None where there are none."""
    host_total_us: float | None = None
    """None if the trace does not give it for any of them."""
    device_self_us: float = 0.0
    device_total_us: float = 0.0
    backward_device_us: float = 0.0
    """GPU time of its backward pass, with that of modules inside."""
    device_meanwhile_us: float | None = None
    occupancy: Mean = field(default_factory=Mean)
    tensor_core: Mean = field(default_factory=Mean)

    def add(self, row: TreeRow, name: str) -> None:
        """Adds one of them."""
        self.names.add(name)
        self.paths.append(row.path)
        self.calls = ((self.calls or 0) + (row.calls or 0)) or None
        if row.host_total_us is not None:
            self.host_total_us = (self.host_total_us or 0.0) + row.host_total_us
        self.device_self_us += row.device_self_us or 0
        self.device_total_us += row.device_total_us or 0
        self.backward_device_us += row.backward_device_us or 0
        if row.device_meanwhile_us is not None:
            self.device_meanwhile_us = (self.device_meanwhile_us or 0) + row.device_meanwhile_us
        self.occupancy.add(row.occupancy_percent, row.known_occupancy_us)
        self.tensor_core.add(row.tensor_core_percent, row.kernel_us)

    @property
    def gpu_us(self) -> float:
        """GPU time of both passes, of any thread."""
        return max(self.device_total_us + self.backward_device_us, self.device_meanwhile_us or 0)

    @property
    def label(self) -> str:
        """``Block ×24``; a single one is given as it is."""
        return f"{self.base} ×{len(self.names)}" if len(self.names) > 1 else self.name

    @property
    def occupancy_percent(self) -> float | None:
        """The mean over their kernels."""
        return self.occupancy.percent

    @property
    def tensor_core_percent(self) -> float | None:
        """The mean over their kernels."""
        return self.tensor_core.percent


class _Branch(Struct):
    """A merged row and those inside it, by their name without its number, in order of appearance."""

    node: Merged
    branches: dict[str, _Branch] = field(default_factory=dict)

    def below(self, base: str, name: str) -> _Branch:
        """The branch of a row inside this one."""
        if base not in self.branches:
            self.branches[base] = _Branch(Merged(name, base, self.node.depth + 1))
        return self.branches[base]

    def inside(self) -> list[Merged]:
        """All inside it, parents before children, siblings by first appearance: merging can bring a child before."""
        found: list[Merged] = []
        left = [*reversed(self.branches.values())]
        while left:
            branch = left.pop()
            found.append(branch.node)
            left += reversed(branch.branches.values())
        return found


def merged_modules(rows: Iterable[TreeRow]) -> list[Merged]:
    """The rows of `modules`, the instances of one class below the same classes as one; parents precede children."""
    top = _Branch(Merged("", "", -1))
    way = [top]
    for row in rows:
        del way[row.depth + 1 :]
        way.append(way[-1].below(_class_name(row.name), row.name))
        node = way[-1].node
        if not node.paths:
            node.name = node.base = row.class_name or row.name
        node.add(row, row.path)
    return top.inside()


def merged_ranges(rows: Iterable[TreeRow]) -> list[Merged]:
    """The rows of `range_tree`, which stand depth first, without their numbers; parents still precede children."""
    top = _Branch(Merged("", "", -1))
    way = [top]
    for row in rows:
        name = row.spelled
        del way[row.depth + 1 :]
        way.append(way[-1].below(without_number(name), name))
        host = (row.host_total_us or 0.0) if row.calls else None
        way[-1].node.add(replace(row, host_total_us=host), name)
    return top.inside()


def largest(nodes: list[Merged], limit: int | None) -> list[Merged]:
    """At most so many, those with most GPU (else host) time; what holds at least what is inside it stays a tree."""
    if limit is None or len(nodes) <= limit:
        return nodes
    ranked = sorted(range(len(nodes)), key=lambda n: (-nodes[n].gpu_us, -(nodes[n].host_total_us or 0), n))
    return [nodes[n] for n in sorted(ranked[:limit])]


def not_attributed_percent(nodes: Iterable[Merged]) -> float | None:
    """Share of GPU time that belongs to no module; None without GPU time."""
    roots = [node for node in nodes if not node.depth]
    gpu = sum(node.gpu_us for node in roots)
    lost = sum(node.gpu_us for node in roots if node.base == NOT_ATTRIBUTED)
    return 100 * lost / gpu if gpu else None


class Work(Struct, frozen=True):
    """Launches of a kernel, copy or fill in a module or range itself, or several of these; of the host is nothing."""

    path: str
    name: str
    category: str
    calls: int
    device_us: float
    short_name: str | None = None
    operator: str = ""
    backward_device_us: float = 0.0
    device_meanwhile_us: float = 0.0
    label: str = ""
    host_total_us: None = None

    @property
    def device_total_us(self) -> float:
        """GPU time, under the name that it has in the tree."""
        return self.device_us

    @property
    def gpu_us(self) -> float:
        """GPU time of both passes, of any thread."""
        return max(self.device_us + self.backward_device_us, self.device_meanwhile_us)


_SUMMED = ("calls", "device_us", "backward_device_us", "device_meanwhile_us")


def work_by_path(rows: Sequence[Json]) -> dict[str, list[Work]]:
    """The rows of `module_kernels` or `range_tree_kernels` by path; short names differ where the kernels do."""
    names = told_apart(rows)
    found: dict[str, list[Work]] = {}
    for row in convert(rows, list[Work]):
        found.setdefault(row.path, []).append(replace(row, label=f"- {names[row.name]}"))
    return found


def work_of(by_path: Mapping[str, Sequence[Work]], paths: Iterable[str]) -> list[Work]:
    """What these launched, a row per operator and kernel, the most time first."""
    groups: dict[tuple[str, str, str], list[Work]] = {}
    for path in paths:
        for row in by_path.get(path, ()):
            groups.setdefault((row.operator, row.name, row.category), []).append(row)
    rows = [_together(same, same[0].label) for same in groups.values()]
    return sorted(rows, key=lambda row: (-row.gpu_us, row.name))


def _together(rows: Sequence[Work], label: str) -> Work:
    """The sums of some rows."""
    return replace(rows[0], label=label, **{name: sum(getattr(row, name) for row in rows) for name in _SUMMED})


def _rest(depth: int, rows: Sequence[Work]) -> list[tuple[int, Work]]:
    return [(depth, _together(rows, f"- {len(rows)} more"))] if rows else []


def below_range(work: Sequence[Work], limit: int | None) -> list[tuple[int, Work]]:
    """At most so many kernels of a range, each with how far below it stands, and the rest as one line."""
    return [*((1, row) for row in work[:limit]), *(_rest(1, work[limit:]) if limit else [])]


def below_module(work: Sequence[Work], limit: int | None) -> list[tuple[int, Work]]:
    """What a module launched, by operator and kernel, each with how far below it stands.

    Args:
        work: of `work_of`.
        limit: at most so many kernels, those that take most time; a line for each operator, and one for all other
            operators, have the sums of the rest, so that all adds up.
    """
    shown = work[:limit]
    operators = list(dict.fromkeys(row.operator for row in shown))
    found: list[tuple[int, Work]] = []
    for operator in operators:
        rows = [row for row in work if row.operator == operator]
        kernels = [row for row in rows if row in shown]
        found.append((1, _together(rows, operator)))
        found += [(2, row) for row in kernels]
        found += _rest(2, rows[len(kernels) :])
    return found + _rest(1, [row for row in work if row.operator not in operators])


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
