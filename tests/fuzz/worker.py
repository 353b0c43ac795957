"""One process that tries a stretch of inputs; `loop` starts it, and starts another if it dies.

It prints a line of JSON for each input. A timer ends an input that computes too long, and a second one the whole
process where the first can't interrupt. The process is limited in memory, and each input in what it may add.
"""

import contextlib
import faulthandler
import json
import math
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fuzz.case import Find, Format, Outcome, Plan, build, plan_of

CPU_SECONDS = 6.0
"""What one input may compute: a report of it takes 0.2 s."""
STALL_SECONDS = 120
GROWTH_KB = 400 << 10
"""What one input may add to the process's peak of memory."""
ADDRESS_SPACE = 12 << 30
MEMORY = 2 << 30
"""What a process may write to; it needs 0.3 GB."""
SHRINKS = 12
"""At most so many tries to make a find smaller."""


class TooLong(Find):
    """An input took more processor time than it may."""


def _ring(*_: Any) -> None:
    raise TooLong(f"more than {CPU_SECONDS:g} s of processor time")


@contextlib.contextmanager
def _limits() -> Iterator[None]:
    signal.signal(signal.SIGPROF, _ring)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    faulthandler.dump_traceback_later(STALL_SECONDS, exit=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if grown > GROWTH_KB:
        raise Find(f"{grown >> 10} MB of memory for one input")


def signature(error: BaseException) -> str:
    """The kind of error and the function of the program in which it rose."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        f
        for f in frames
        if "/tests/" not in f.filename and "site-packages" not in f.filename and "/lib/" not in f.filename
    ]
    cause = error.__cause__ if isinstance(error, Find) else None
    if cause is not None and not own:
        return signature(cause)
    place = f"{Path(own[-1].filename).parent.name}/{Path(own[-1].filename).name}:{own[-1].name}" if own else ""
    words = re.split(r"[\d(:]", str(error))[0].strip()[:60] if isinstance(error, Find) else ""
    return " ".join(part for part in (type(error).__name__, words, place) if part)


def attempt(format: Format, plan: Plan, folder: Path) -> Outcome:
    """Tries one input."""
    for old in folder.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    try:
        doc = build(format, plan)
    except Exception as error:  # the fuzzer's own fault, which must not hide among the program's
        return Outcome(plan, "find", "".join(traceback.format_exception(error)), f"FUZZER {signature(error)}")
    try:
        with _limits(), warnings.catch_warnings():
            warnings.simplefilter("error")
            return Outcome(plan, format.examine(doc, plan, folder))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # any exception is a find, also those that Polars raises
        text = "".join(traceback.format_exception(error))
        return Outcome(plan, "find", text, signature(error))


def smaller(format: Format, outcome: Outcome, folder: Path) -> Outcome:
    """The find with as few steps as still show it."""
    best = outcome
    tries = 0
    at = 0
    while at < len(best.plan.steps) and len(best.plan.steps) > 1 and tries < SHRINKS:
        plan = best.plan
        steps = plan.steps[:at] + plan.steps[at + 1 :]
        found = attempt(format, Plan(plan.format, plan.seed, plan.number, steps), folder)
        tries += 1
        if found.find and found.signature == outcome.signature:
            best = found
        else:
            at += 1
    return best


def keep(format: Format, outcome: Outcome, folder: Path, finds: Path) -> Path:
    """Copies the input of a find into the folder of finds, with what it shows and how it is made."""
    attempt(format, outcome.plan, folder)
    target = finds / f"{outcome.plan.format}-{outcome.plan.seed}-{outcome.plan.number}"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target, symlinks=True)
    about = {"plan": outcome.plan.__dict__, "signature": outcome.signature, "find": outcome.find}
    (target / "about.json").write_text(json.dumps(about, indent=1, default=str))
    return target


def apart(folder: Path) -> None:
    """Keeps the user's cache, settings and memory out of it."""
    os.environ.update(
        TRACETUI_CACHE_DIR=str(folder / "cache"), TRACETUI_CONFIG_DIR=str(folder / "config"),
        TRACETUI_DATA_DIR=str(folder / "data"), TRACETUI_NO_STATE="1",
    )  # fmt: skip


def main(
    name: str, seed: int, numbers: list[int], finds: Path | None, *, kept: int = 2, until: float = math.inf
) -> int:
    """Tries inputs until a time (seconds since 1970); returns how many finds there were."""
    from fuzz.formats import FORMATS

    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    # the pipe to the parent is kept apart, lest something that the program prints come between
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    seen: dict[str, int] = {}
    many = 0
    with tempfile.TemporaryDirectory(prefix="tracetui-fuzz-") as scratch:
        root = Path(scratch)
        apart(root)
        (folder := root / "in").mkdir()
        format = FORMATS[name]()
        format.prepare(folder)
        for number in numbers:
            if time.time() >= until:
                break
            out.write(json.dumps({"begin": number}) + "\n")
            outcome = attempt(format, plan_of(format, seed, number), folder)
            line: dict[str, Any] = {"number": number, "said": outcome.said}
            line["classes"] = sorted({name for name, _ in outcome.plan.steps})
            if outcome.find:
                many += 1
                seen[outcome.signature] = seen.get(outcome.signature, 0) + 1
                line |= {"signature": outcome.signature, "find": outcome.find}
                if seen[outcome.signature] <= kept:
                    best = smaller(format, outcome, folder)
                    line |= {"find": best.find, "steps": best.plan.steps}
                    if finds is not None:
                        line["folder"] = str(keep(format, best, folder, finds))
            out.write(json.dumps(line) + "\n")
    out.flush()
    return many


if __name__ == "__main__":
    given = sys.argv[1:]
    first, count = int(given[2]), int(given[3])
    main(given[0], int(given[1]), list(range(first, first + count)), Path(given[4]), until=float(given[5]))
