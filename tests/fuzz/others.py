"""Formats of other tools: bytes of their files, damaged: they are read, or refused in one line."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from fuzz import road, same
from fuzz.case import NOTED, READ, REFUSED, Plan
from fuzz.spans import BYTEWISE, Spans


@dataclass
class Bytes:
    """A file in the making."""

    name: str
    spans: Spans
    packed: bool = False

    def write(self, folder: Path) -> Path:
        """Writes it."""
        content = bytes(self.spans.data)
        path = folder / self.name
        path.write_bytes(gzip.compress(content) if self.packed else content)
        return path


def _damaged(damage: Callable[[Spans, Random], None]) -> Callable[[Bytes, Random], None]:
    return lambda doc, dice: damage(doc.spans, dice)


def _pack(doc: Bytes, dice: Random) -> None:
    """The whole is compressed."""
    doc.packed = dice.random() < 0.8


SHAPED = {"packed": _pack, **{name: _damaged(damage) for name, damage in BYTEWISE.items()}}
NONE: dict[str, Callable[[Bytes, Random], None]] = {}


class Others:
    """Files of a few kinds, as recorded beside the checkout, or small ones made here."""

    name = ""
    files: tuple[str, ...] = ()
    made: tuple[tuple[str, str], ...] = ()
    shaped = SHAPED
    bytewise = NONE

    def __init__(self) -> None:
        self.bases: list[tuple[str, bytes]] = []

    def prepare(self, folder: Path) -> None:
        """Reads the bases once."""
        from sample_runs import OUTSIDE

        known = [OUTSIDE / name for name in self.files if (OUTSIDE / name).is_file()]
        for path in known:
            content = path.read_bytes()
            self.bases.append(
                (path.name.removesuffix(".gz"), gzip.decompress(content) if path.suffix == ".gz" else content)
            )
        self.bases += [(name, text.encode()) for name, text in self.made]

    def base(self, dice: Random) -> Bytes:
        """A base to change."""
        name, content = dice.choice(self.bases)
        return Bytes(name, Spans(bytearray(content), []))

    def examine(self, doc: Bytes, plan: Plan, folder: Path) -> str:
        """Reads the input."""
        from tracetui.parsers import TraceError, open_path

        path = doc.write(folder)
        try:
            run = open_path(path, cache=False)
        except TraceError as error:
            road.one_line(str(error))
            return REFUSED
        same.counts(run.main)
        same.ids(run.main)
        road.follow(run, plan, folder)
        return NOTED if run.main.notes or run.warnings else READ


class NcuReport(Others):
    """Reports of Nsight Compute."""

    name = "ncu report"
    files = ("formats/ncu_rep/histogram.ncu-rep",)
    made = (("none.ncu-rep", "NVR\0\2\0\0\0\x08\x07"),)


class XPlane(Others):
    """Protobufs of XLA's profiler."""

    name = "xplane"
    files = ("formats/xplane/tf_bert_gpu4.xplane.pb.gz",)
    made = (("a.xplane.pb", "\n\x0f\x12\r/device:GPU:0"),)


class Databases(Others):
    """Databases of nvprof and rocprofv3."""

    name = "other databases"
    files = ("formats/nvprof/one_kernel.nvvp", "formats/rocpd/ck_bmm_results.db.gz")
    made = (("a.db", "SQLite format 3\0"),)


_TIMED = {"start_timestamp": 5, "end_timestamp": 9, "correlation_id": {"internal": 3}}
_DISPATCH = _TIMED | {"dispatch_info": {"kernel_id": 4, "dispatch_id": 1, "agent_id": {"handle": 2}}}
COUNTED = {
    "metadata": {"pid": 7}, "agents": [{"id": {"handle": 2}, "type": 2}],
    "counters": [{"id": {"handle": 8}, "name": "A"}],
    "kernel_symbols": [{"kernel_id": 4, "formatted_kernel_name": "k"}],
    "strings": {"marker_api": [{"key": 3, "value": "s"}]},
    "buffer_records": {"kernel_dispatch": [_DISPATCH], "marker_api": [_TIMED | {"thread_id": 7}]},
    "callback_records": {
        "counter_collection": [{"dispatch_data": _DISPATCH, "records": [{"counter_id": {"handle": 8}, "value": 2.5}]}]
    },
}  # fmt: skip
"""What rocprofv3's JSON has of one counted kernel and one marker."""


class Rocprof(Others):
    """CSV and JSON of rocprofv3, and what rocprof counted."""

    name = "rocprof"
    files = (
        "formats/rocprof/v3_kernel_trace.csv", "formats/rocprof/v3_results.json.gz",
        "formats/rocprof/vector_add_counters.csv",
    )  # fmt: skip
    made = (
        (
            "1_counter_collection.csv",
            '"Correlation_Id","Dispatch_Id","Agent_Id","Process_Id","Grid_Size","Kernel_Name","Workgroup_Size",'
            '"Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"\n'
            + "".join(
                f'{at},{at // 2},"Agent 1",7,512,"k",64,"SQ_{at % 2}",{at}.5,{at},{at + 5}\n' for at in range(30)
            ),
        ),
        (
            "1_hip_api_trace.csv",
            '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
            + "".join(f'"HIP","hipMemcpy",7,7,{at},{at * 10},{at * 10 + 5}\n' for at in range(30)),
        ),
        ("counted_results.json", json.dumps({"rocprofiler-sdk-tool": [COUNTED]})),
    )


class Edge(Others):
    """What trtexec exports, and logs of tegrastats and jtop."""

    name = "edge"
    files = ("formats/tegrastats/xavier_nx.log", "formats/trtexec/mobilenet.qat.profile.json")
    made = (
        (
            "jtop.csv",
            "time,uptime,CPU1,RAM,EMC,GPU,Temp GPU,Power TOT\n"
            + "".join(f"2025-01-02 10:00:{at:02}.5,0:00:{at:02},OFF,0.{at},{at},9,40,{at}0\n" for at in range(60)),
        ),
        (
            "board.log",
            "".join(
                f"01-02-2026 10:00:{at:02} RAM {at}/6284MB GR3D_FREQ {at}%@[305,0] gpu@40.1C VDD_IN {at}mW/9mW\n"
                for at in range(60)
            ),
        ),
        (
            "times.json",
            '[ {"startEnqMs": 0, "startComputeMs": 1, "computeMs": 2.5, "latencyMs": 3} ,'
            ' {"startEnqMs": 3, "startComputeMs": 4, "computeMs": 2.25, "latencyMs": 3} ]',
        ),
    )
