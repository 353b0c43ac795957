"""Builds small files as Nsight Compute prints them."""

from collections.abc import Iterable, Sequence

IDS = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name"]
PLACE = ["Context", "Stream", "Block Size", "Grid Size", "Device", "CC"]
NVTX = [
    "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
    "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
]
LONG = ["Section Name", "Metric Name", "Metric Unit", "Metric Value"]
RULE = ["Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup"]
SOL = "GPU Speed Of Light Throughput"


def line(fields: Iterable[object]) -> str:
    """One record, every field quoted."""
    return ",".join('"' + str(field).replace('"', '""') + '"' for field in fields)


def ids(number: int, kernel: str, pid: int = 77) -> list[object]:
    """The first columns of a record."""
    return [number, pid, "train.py", "10.1.2.3", kernel]


PLACED = ["1", "7", "(128, 1, 1)", "(96, 2, 1)", "0", "8.6"]


def long_table(rows: Sequence[tuple[int, str, str, str, str, str]], *, rules: Sequence[Sequence[object]] = ()) -> str:
    """A details page: (ID, kernel, section, metric, unit, value) and (ID, kernel, section, rule …) rows."""
    header = [*IDS, *PLACE, *LONG, *(RULE if rules else [])]
    lines = [line(header)]
    for number, kernel, *metric in rows:
        # ncu ends a metric's row with a comma where rules have columns
        lines.append(line([*ids(number, kernel), *PLACED, *metric]) + ("," if rules else ""))
    for number, kernel, section, *rule in rules:
        lines.append(line([*ids(int(str(number)), str(kernel)), *PLACED, section, "", "", "", *rule]))
    return "\n".join(lines) + "\n"


def wide_table(metrics, rows, *, pid=77, nvtx=None) -> str:
    """A raw page: metric names with their units, and (kernel, values) rows."""
    ranges = NVTX if nvtx is not None else []
    header = [*IDS[:4], *ranges, IDS[4], *PLACE, *metrics]
    lines = [line(header), line(["" for _ in [*IDS, *ranges, *PLACE]] + list(metrics.values()))]
    for number, (kernel, values) in enumerate(rows):
        first = ids(number, kernel, pid)
        named = [nvtx[number], ""] if nvtx is not None else []
        lines.append(line([*first[:4], *named, kernel, *PLACED, *values]))
    return "\n".join(lines) + "\n"
