"""Spreads inputs over processes, starts another where one died, and counts what came of them."""

import json
import os
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import inf
from pathlib import Path
from threading import Thread
from typing import Any, TypeAlias

from fuzz import worker

Task: TypeAlias = tuple[str, int, int]
"""Format, number of the first input, how many."""
CHUNK = 500
"""Most inputs of one process, lest what it keeps of each (dictionaries of names) fill the memory."""
ROUNDS = 3
"""So many chunks for each process at a time, so that none is left alone with a long one in the end."""
LEAST = 60
"""Inputs of one process for which its start pays."""
SILENT_SECONDS = worker.STALL_SECONDS + 60
"""A process that says nothing for so long is ended: it did not end itself."""
POLL_SECONDS = 1
TRIES = 3
"""Processes that come as far as no input are started so many times one after the other."""
CHEAP = {"settings": 2, "cache": 1, "run.json": 1}
"""Formats with fewer classes get a smaller share of the inputs than the others, which have this one."""
SHARE = 3
ENVIRONMENT = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}
KEPT = 3
"""At most so many inputs of one kind of find are told of."""


def one(name: str, seed: int, number: int, finds: Path) -> int:
    """Tries one input in this process and prints what it shows."""
    return worker.main(name, seed, [number], finds)


def run(
    names: list[str], seed: int, first: int, count: int, jobs: int, out: Path, seconds: float = inf
) -> dict[str, Any]:
    """Tries `count` inputs, or as many as there is time for; returns the summary.

    It is also written whenever a process has ended.
    """
    until = time.time() + seconds
    finds = out / "finds"
    finds.mkdir(parents=True, exist_ok=True)
    weights = {name: CHEAP.get(name, SHARE) for name in names}
    parts = {name: count * weight // sum(weights.values()) for name, weight in weights.items()}
    parts[names[0]] += count - sum(parts.values())
    chunk = min(CHUNK, max(LEAST, count // (jobs * ROUNDS)))
    tasks = [
        (name, begin, min(chunk, first + many - begin))
        for name, many in parts.items()
        for begin in range(first, first + many, chunk)
    ]
    tasks.sort(key=lambda task: task[1])  # all formats from the beginning, so that an early end shows of each
    summary: dict[str, Any] = {"seed": seed, "first": first, "formats": {name: _empty() for name in names}}
    with ThreadPoolExecutor(jobs) as pool:
        for name, lines in pool.map(lambda task: (task[0], list(_chunk(task, seed, finds, until))), tasks):
            if not lines:  # the time is over
                continue
            _add(summary["formats"][name], lines)
            _say(name, summary["formats"][name])
            (out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    return summary


def _empty() -> dict[str, Any]:
    return {"inputs": 0, "outcomes": {}, "classes": {}, "finds": []}


def _chunk(task: Task, seed: int, finds: Path, until: float) -> Iterator[dict[str, Any]]:
    """The lines of one process's inputs; where it dies or hangs at an input, that is a find, and another goes on."""
    name, begin, count = task
    end = begin + count
    idle = 0
    while begin < end and time.time() < until:
        given = [name, str(seed), str(begin), str(end - begin), str(finds), str(until)]
        process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.worker", *given], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **ENVIRONMENT},
        )  # fmt: skip
        last, before = None, begin
        said, told, silent = _told(process)
        for event in said:
            if "begin" in event:
                last = event["begin"]
            else:
                begin, last = event["number"] + 1, None
                yield event
        idle = 0 if begin > before else idle + 1
        if last is None and process.returncode == 0:
            return  # all are done, or the time is over
        how = "was ended, silent for too long," if silent else "died"
        place = "at it" if last is not None else "before it"
        yield {"number": begin if last is None else last, "said": "find", "classes": [],
               "signature": "SILENT" if silent else f"DIED {process.returncode}",
               "find": f"the process {how} {place} (exit status {process.returncode})\n{told[-3000:]}"}  # fmt: skip
        if last is None and idle >= TRIES:
            return  # it does not come as far as an input
        begin = begin if last is None else last + 1


def _told(process: subprocess.Popen[str]) -> tuple[list[dict[str, Any]], str, bool]:
    """The lines of a process, the end of what it said on stderr, and whether it was ended: silent for too long."""
    assert process.stdout is not None
    assert process.stderr is not None
    lines: list[str] = []
    heard = [time.monotonic()]
    errors: deque[str] = deque(maxlen=100)
    silent = False

    def read() -> None:
        for line in process.stdout or ():
            lines.append(line)
            heard[0] = time.monotonic()

    readers = [Thread(target=read), Thread(target=lambda: errors.extend(process.stderr or ()))]
    for reader in readers:
        reader.start()
    while process.poll() is None:
        if time.monotonic() - heard[0] > SILENT_SECONDS:
            silent = True
            process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(POLL_SECONDS)
    for reader, pipe in zip(readers, (process.stdout, process.stderr), strict=True):
        reader.join()
        pipe.close()
    return [event for line in lines if (event := _event(line)) is not None], "".join(errors), silent


def _event(line: str) -> dict[str, Any] | None:
    """A line of a worker; None for one that its end cut short."""
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    return found


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
