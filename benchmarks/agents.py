"""Asks 30 questions of our own recordings through the commands alone, and counts the bytes that each answer needed.

    python benchmarks/agents.py [--markdown]

What is known of each recording does not come from tracetui: it was counted in the raw files (with `json`, `sqlite3`
and `csv`), or is what the recording was made to show (samples/README.md, tests/data/README.md). Each question is
answered by a fixed command and a fixed place in its JSON, as a program finds them that has read `tracetui reference
skill` and the schemas. Exits 1 if an answer is wrong. Needs tracetui[query].
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracetui.app.cli.main import main as tracetui

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
RAW, MADE = "raw file", "made to show it"
V, V16, SWEEP = "samples/vim_tiny", "samples/vim_tiny_fp16", "samples/topk_deit_sweep"
DATA = "tests/data"
DDP, GLOO = f"{DATA}/chrome/ddp_vit_small_2ranks", f"{DATA}/chrome/gloo_2ranks"
NEAR = 0.005
"""How far a number may be from what is known, as a share of it."""


@dataclass(frozen=True)
class Question:
    """A question, what is known, and how the interface answers it."""

    text: str
    known: Any
    source: str
    words: tuple[str, ...]
    """The command."""
    answer: Callable[[Any], Any]


def trace(found: Any) -> Any:
    """The main recording of a report."""
    return found["run"]["traces"][found["run"]["main"]]


def report(run: str, *sections: str, tokens: int = 1000) -> tuple[str, ...]:
    return ("report", run, "--section", *sections, "--max-tokens", str(tokens))


def query(run: str, sql: str, *options: str) -> tuple[str, ...]:
    return ("query", run, *options, sql)


def first(column: str) -> Callable[[Any], Any]:
    return lambda found: found["rows"][0][column]


def evidence(found: Any, key: str) -> dict[str, float]:
    """The numbers that a finding rests on, by label."""
    (row,) = [row for row in trace(found)["findings"] if row["key"] == key]
    return {item["label"]: item["value"] for item in row["evidence"]}


def slower(numbers: dict[str, float]) -> float:
    return numbers["step under the profiler"] / numbers["step without the profiler"]


def what(found: Any) -> str:
    return str(trace(found)["overview"]["waits_for"]["what"])


SHORT = ("--max-tokens", "1000")
QUESTIONS = (
    Question("Which kernel dominates?", "selective_scan_fwd_kernel", RAW, report(V, "kernels"),
             lambda found: trace(found)["kernels"][0]["short_name"]),
    Question("Its share of the kernel time, %?", 29.98, RAW, report(V, "kernels"),
             lambda found: trace(found)["kernels"][0]["percent"]),
    Question("How often is it launched?", 144, RAW, report(V, "kernels"),
             lambda found: trace(found)["kernels"][0]["calls"]),
    Question("How many different kernels are there?", 19, RAW, report(V, "kernels"),
             lambda found: trace(found)["counts"]["kernels"]),
    Question("Which kernel dominates a training step's time?", 11.17, RAW, report(f"{DATA}/gpt_train", "kernels"),
             lambda found: trace(found)["kernels"][0]["percent"]),
    Question("Which operator has most GPU time?", "aten::mm", RAW, report(V, "operators"),
             lambda found: trace(found)["operators"][0]["name"]),
    Question("How many kernels are launched in all?", 1890, RAW,
             query(V, "select count(*) as n from device where kind = 'kernel'"), first("n")),
    Question("GPU time of all kernels, µs?", 7658.201, RAW,
             query(V, "select sum(duration) / 1000 as us from device where kind = 'kernel'"), first("us")),
    Question("How long is the longest kernel, µs?", 40.544, RAW,
             query(V, "select max(duration) / 1000 as us from device where kind = 'kernel'"), first("us")),
    Question("Which grid is launched most often?", [4, 384, 1], RAW,
             query(V, "select grid, count(*) as n from device where kind = 'kernel' group by grid order by n desc "
                   "limit 1"), first("grid")),
    Question("How many calls of aten::linear?", 219, RAW,
             query(V, "select count(*) as n from host where kind = 'operator' and name = 'aten::linear'"), first("n")),
    Question("How many launches by cudaLaunchKernel?", 1164, RAW,
             query(V, "select count(*) as n from host where name = 'cudaLaunchKernel'"), first("n")),
    Question("What limits the inference of a small network?", "host", MADE, ("report", V, *SHORT),
             lambda found: (found.get("waits_for") or trace(found)["overview"]["waits_for"])["what"]),
    Question("What limits a run of large matrix products?", "gpu", MADE,
             report(f"{DATA}/gpt_clean", "overview"), what),
    Question("What is worth mending first?", "S2", MADE, ("report", V, *SHORT),
             lambda found: (found.get("findings") or trace(found)["findings"])[0]["key"]),
    Question("Is there anything to mend in a run that is fine?", [], MADE, report(f"{DATA}/gpt_clean", "findings"),
             lambda found: [row["key"] for row in trace(found)["findings"] if row["severity"] != "info"]),
    Question("A step without the profiler, µs?", 20886.816, RAW, report(V, "overview"),
             lambda found: trace(found)["overview"]["waits_for"]["clean_us"]),
    Question("Can the recorded step be taken for the step?", False, RAW,
             query(V, "select id from findings where id like 'V%'"),
             lambda found: "V8" not in [row["id"] for row in found["rows"]]),
    Question("How many times slower is it under the profiler?", 2.450, RAW,
             report(V, "findings", tokens=9000), lambda found: slower(evidence(found, "V8"))),
    Question("Does fp16 make it faster, beyond the noise?", False, MADE, ("diff", V, V16, "--limit", "1"),
             lambda found: found["step"]["beyond_noise"]),
    Question("By how much did the median step change, %?", -8.648, RAW, ("diff", V, V16, "--limit", "1"),
             lambda found: found["step"]["median_delta_percent"]),
    Question("What did somebody change on purpose?", ["dtype"], RAW, ("diff", V, V16, "--limit", "1"),
             lambda found: [row["field"] for row in found["comparable"]["differences"] if row["intended"]]),
    Question("How many points does a sweep have?", 6, RAW, ("sweep", SWEEP, "--limit", "1"),
             lambda found: len(found["points"]) if len(found["points"]) > 1 else found["counts"]["points"]),
    Question("Is less work faster at batch 16, and by which factor?", 2.507, RAW, ("sweep", SWEEP),
             lambda found: next(row["speedup"] for row in found["comparisons"][0]["points"] if row["x"] == 16)),
    Question("Which rank do the others wait for?", 1, RAW, ("ranks", DDP),
             lambda found: max(found["ranks"], key=lambda row: row["late_us"])["rank"]),
    Question("Kernel time of rank 0 in collectives, µs?", 102191.11, RAW,
             query(DDP, "select sum(duration) / 1000 as us from device where kind = 'kernel' and name like 'nccl%'",
                   "--rank", "0"), first("us")),
    Question("Does a Gloo job use a GPU?", 0, RAW, query(GLOO, "select count(*) as n from device", "--rank", "0"),
             first("n")),
    Question("How much memory does the snapshot's allocator hold, bytes?", 9365880832, RAW,
             report(f"{DATA}/memory/gpt_memory_snapshot.pickle.gz", "memory", tokens=3000),
             lambda found: trace(found)["memory"]["segments"]["reserved_bytes"]),
    Question("Which kernel dominates a Nsight Systems recording?", "gemm", RAW,
             report(f"{DATA}/nsys/system.sqlite.gz", "kernels"),
             lambda found: trace(found)["kernels"][0]["short_name"].split("(")[0]),
    Question("How many launches did Nsight Compute measure?", 15, RAW,
             query(f"{DATA}/ncu/mlp/mlp_bs64_fp32.csv.gz", "select count(*) as n from device"), first("n")),
)  # fmt: skip


def asked(words: tuple[str, ...]) -> tuple[Any, int]:
    """What a command prints as JSON, and how many bytes that is."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = tracetui([*words, "--format", "json"])
    if code:
        raise SystemExit(f"{' '.join(words)}: exit code {code}")
    text = out.getvalue()
    return json.loads(text), len(text.encode())


def is_right(said: Any, known: Any) -> bool:
    """Whether an answer is what is known; a number that is no count within `NEAR`."""
    if isinstance(known, float):
        return isinstance(said, (int, float)) and abs(said - known) <= NEAR * abs(known)
    return bool(said == known)


def run() -> list[tuple[Question, Any, bool, int]]:
    """Every question with its answer, whether it is right, and the bytes that were read."""
    rows = []
    for question in QUESTIONS:
        found, size = asked(question.words)
        said = question.answer(found)
        rows.append((question, said, is_right(said, question.known), size))
    return rows


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--markdown", action="store_true", help="print a table of Markdown")
    markdown = arguments.parse_args().markdown
    os.chdir(ROOT)
    rows = run()
    if markdown:
        print("| question | answer | known from | command | bytes |\n|---|---|---|---|--:|")
    for question, said, right, size in rows:
        shown = f"{said:.6g}" if isinstance(said, float) else str(said)
        if markdown:
            print(f"| {question.text} | {shown}{'' if right else ' (wrong)'} | {question.source} | "
                  f"{question.words[0]} | {size:,} |")  # fmt: skip
        else:
            print(f"{'ok   ' if right else 'WRONG'} {size:>9,} B  {question.text}  {shown}")
            if not right:
                print(f"      known: {question.known}")
    sizes = sorted(size for *_, size in rows)
    print(
        f"{sum(right for *_, right, _ in rows)} of {len(rows)} right; bytes: median {sizes[len(sizes) // 2]:,}, "
        f"most {sizes[-1]:,}, all {sum(sizes):,}"
    )
    return 0 if all(right for *_, right, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
