"""Spreads inputs over processes, starts another where one died, and counts what came of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from fuzz import worker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHUNK = 500
"""Inputs of one process: few enough that what it keeps of each (dictionaries of names) does not fill the memory."""
CHEAP = {"settings": 2, "cache": 1, "run.json": 1}
"""Formats with fewer classes get a smaller share of the inputs than the others, which have this one."""
SHARE = 3
ENVIRONMENT = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}
KEPT = 3
"""At most so many inputs of one kind of find are told of."""


def one(name: str, seed: int, number: int, finds: Path) -> int:
    """Tries one input in this process and prints what it shows."""
    return worker.main(name, seed, [number], finds)


def run(names: list[str], seed: int, first: int, count: int, jobs: int, out: Path) -> dict[str, Any]:
    """Tries `count` inputs; returns the summary, which is also written whenever a process has ended."""
    finds = out / "finds"
    finds.mkdir(parents=True, exist_ok=True)
    weights = {name: CHEAP.get(name, SHARE) for name in names}
    parts = {name: count * weight // sum(weights.values()) for name, weight in weights.items()}
    tasks = [
        (name, begin, min(CHUNK, first + many - begin))
        for name, many in parts.items()
        for begin in range(first, first + many, CHUNK)
    ]
    tasks.sort(key=lambda task: task[1])  # all formats from the beginning, so that an early end shows of each
    summary: dict[str, Any] = {"seed": seed, "first": first, "formats": {name: _empty() for name in names}}
    with ThreadPoolExecutor(jobs) as pool:
        for name, lines in pool.map(
            lambda task: (task[0], list(_chunk(task[0], seed, task[1], task[2], finds))), tasks
        ):
            _add(summary["formats"][name], lines)
            _say(name, summary["formats"][name])
            (out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    return summary


def _empty() -> dict[str, Any]:
    return {"inputs": 0, "outcomes": {}, "classes": {}, "finds": []}


def _lines(task: tuple[str, int, int], seed: int, finds: Path) -> list[dict[str, Any]]:
    return list(_chunk(task[0], seed, task[1], task[2], finds))


def _chunk(name: str, seed: int, begin: int, count: int, finds: Path) -> Iterator[dict[str, Any]]:
    """The lines of one process's inputs; where it dies at an input, that is a find, and another goes on behind it."""
    end = begin + count
    while begin < end:
        last, command = (
            None,
            [sys.executable, "-m", "fuzz.worker", name, str(seed), str(begin), str(end - begin), str(finds)],
        )
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **ENVIRONMENT},
        )  # fmt: skip
        said = process.communicate()
        for line in said[0].splitlines():
            event = json.loads(line)
            if "begin" in event:
                last = event["begin"]
            else:
                begin, last = event["number"] + 1, None
                yield event
        if begin >= end:
            return
        if last is None:
            raise RuntimeError(f"the fuzzer's process for {name} failed: {said[1][-2000:]}")
        how = f"the process died at it (exit status {process.returncode})"
        yield {"number": last, "said": "find", "classes": [], "signature": f"DIED {process.returncode}",
               "find": f"{how}\n{said[1][-3000:]}"}  # fmt: skip
        begin = last + 1


def _add(into: dict[str, Any], lines: list[dict[str, Any]]) -> None:
    outcomes, classes = Counter(into["outcomes"]), Counter(into["classes"])
    for line in lines:
        into["inputs"] += 1
        outcomes[line["said"]] += 1
        classes.update(line["classes"])
        if "signature" in line:
            known = next((find for find in into["finds"] if find["signature"] == line["signature"]), None)
            if known is None:
                known = {"signature": line["signature"], "count": 0, "numbers": [], "find": line["find"][-3000:]}
                into["finds"].append(known)
            known["count"] += 1
            if len(known["numbers"]) < KEPT:
                known["numbers"].append(line["number"])
    into["outcomes"], into["classes"] = dict(outcomes), dict(classes)


def _say(name: str, found: dict[str, Any]) -> None:
    kinds = ", ".join(f"{find['signature']} ({find['count']}: {find['numbers'][0]})" for find in found["finds"])
    print(f"{name}: {found['inputs']:,} inputs; {kinds or 'no finds'}", flush=True)
