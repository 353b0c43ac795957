"""SQLite exports of Nsight Systems."""

import gzip
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from fuzz import road, same
from fuzz.case import NOTED, READ, REFUSED, Find, Plan
from fuzz.nsys_doc import DEVICE_TABLES, EVENTS, HOST_TABLES, NsysBase, NsysDoc
from fuzz.nsys_steps import SHAPED, TORN

DEVICE = ("kind", "start", "duration", "stream", "context", "correlation", "grid", "block", "registers", "bytes")
HOST = ("kind", "start", "correlation")


class Nsys:
    """SQLite exports."""

    name = "nsys"
    files = ("nsys/graph_node.sqlite.gz", "nsys/graph_whole.sqlite.gz", "ops/ops.sqlite.gz", "made")
    shaped = SHAPED
    bytewise = TORN

    def __init__(self) -> None:
        self.bases: list[NsysBase] = []

    def prepare(self, folder: Path) -> None:
        from nsys_file import NsysFile
        from sample_runs import recorded

        for name in self.files:
            path = folder / "base.sqlite"
            path.unlink(missing_ok=True)
            if name == "made":
                _made(NsysFile()).write(path)
            else:
                path.write_bytes(gzip.decompress(recorded(name).read_bytes()))
            self.bases.append(_read(path))

    def base(self, dice: Random) -> NsysDoc:
        return NsysDoc(dice.choice(self.bases))

    def examine(self, doc: NsysDoc, plan: Plan, folder: Path) -> str:
        from tracetui.parsers import TraceError, open_path
        from tracetui.parsers.nsys.reader import read_nsys

        path = doc.write(folder)
        try:
            run = open_path(path, cache=False)
        except TraceError as error:
            road.one_line(str(error))
            lost = sum(doc.spoilt[table] for table in EVENTS)
            if not (doc.damaged or doc.encoding) and lost < doc.base.total // 2:
                raise Find(f"refused, though most of it is intact: {error}") from error
            return REFUSED
        trace = run.main
        same.counts(trace)
        same.ids(trace)
        if not doc.damaged:
            _compare(doc, trace)
            if plan.dice("paths").random() < 0.3:
                road.equal(trace, read_nsys(path, bulk=False), "bulk and careful path")
        road.follow(run, plan, folder)
        return NOTED if trace.notes or run.warnings else READ


def _made(file: Any) -> Any:
    """What no small recording has: OS calls, marks, domains, named threads, memsets, synchronizations."""
    file.gpu()
    file.process("/usr/bin/python3")
    file.thread_name("main", 100)
    file.domain("NCCL", 3)
    file.diagnostic("Some events were lost")
    for step in range(6):
        at = step * 1000
        file.push_pop(f"step {step}", at, at + 900)
        file.start_end("load", at + 5, at + 400, end_tid=101)
        file.mark("here", at + 7)
        file.nvtx(59, "reduce", at + 20, at + 60, domain=3)
        file.launch("void gemm<float>(float*)", call=(at + 10, at + 20), kernel=(at + 30, at + 300))
        file.launch("add", call=(at + 40, at + 50), kernel=(at + 310, at + 400), graphNodeId=7)
        file.memcpy(at + 400, at + 420, correlation=file.call("cudaMemcpyAsync_v3020", at + 60, at + 70))
        file.memset(at + 430, at + 440)
        file.synchronization(at + 450, at + 800)
        file.call("cudaDeviceSynchronize_v3020", at + 450, at + 810)
        file.os_call("poll", at + 100, at + 200, tid=102)
        file.overhead("CUDA profiling data flush overhead", at + 820, at + 830)
    return file


def _read(path: Path) -> NsysBase:
    from tracetui.parsers import open_path

    trace = open_path(path, cache=False).main
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        tables = {name: [row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')] for name in names}
        rows = {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables}
    device, host, kernels = _rows(trace)
    return NsysBase(path.read_bytes(), tables, rows, device, host, kernels, trace.source.events_total)


def _rows(trace: Any) -> tuple[Counter[tuple[object, ...]], ...]:
    import polars as pl

    kernels = trace.device.filter(pl.col("kind") == "kernel")
    return same.rows(trace.device, DEVICE), same.rows(trace.host, HOST), same.rows(kernels, ("start", "name"))


def _compare(doc: NsysDoc, trace: Any) -> None:
    device, host, kernels = _rows(trace)
    lost_device = sum(doc.spoilt[table] for table in DEVICE_TABLES)
    same.kept(doc.base.device, device, lost_device, "device")
    same.kept(doc.base.host, host, sum(doc.spoilt[table] for table in HOST_TABLES), "host")
    if doc.names:
        same.kept(doc.base.kernels, kernels, lost_device, "kernels")
    spoilt = sum(doc.spoilt[table] for table in doc.base.tables)
    if not spoilt and trace.source.events_total != doc.base.total:
        raise Find(f"the file holds {doc.base.total} events, {trace.source.events_total} are counted")
