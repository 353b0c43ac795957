"""Category, tensor cores and short name of every kernel in ``tests/data/kernel_names.csv``, judged by hand."""

from __future__ import annotations

import csv
from collections import Counter

import pytest
from sample_runs import recorded

from tracetui.parsers.names.kernel_names import CATEGORIES, category, short_name, uses_tensor_cores
from tracetui.parsers.names.matrix_work import tensor_cores_unclear

SUFFIXES = (".json.gz", ".csv.gz", ".sqlite.gz")


def table() -> list[dict[str, str]]:
    with recorded("kernel_names.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def tensor_cores(name: str) -> str:
    if uses_tensor_cores(name):
        return "yes"
    return "unclear" if tensor_cores_unclear(name) else "no"


@pytest.mark.parametrize("column", ["category", "tensor_cores", "short_name"])
def test_every_name_reads_as_judged(column: str) -> None:
    read = {"category": category, "tensor_cores": tensor_cores, "short_name": short_name}[column]
    wrong = {row["name"]: (row[column], read(row["name"])) for row in table() if row[column]}
    assert {name: both for name, both in wrong.items() if both[0] != both[1]} == {}


def test_the_table_is_wide_enough() -> None:
    rows = table()
    names = {row["name"] for row in rows}
    assert len(names) == len(rows) >= 400
    assert sum(row["source"].endswith(SUFFIXES) for row in rows) >= 300  # of recordings
    assert set(Counter(row["category"] for row in rows)) == set(CATEGORIES)
    for part in (
        "nvjet", "cutlass_80_", "cutlass3x", "Sm90Tma", "cudnn::", "triton_per", "bmm_", "flashinfer::",
        "flash_fwd_kernel", "FlashAttnFwdSm90", "_ZN7ck_tile", "Cijk_", "igemm_", "SubTensorOp", "Eigen::",
        "loop_", "sm87_xmma", "ampere_",
    ):  # fmt: skip
        assert any(part in name for name in names), part
