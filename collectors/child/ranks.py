"""What differs between the ranks of a job: the names of their files, and where they wait for one another.

Ranks are told apart by the variables that torchrun sets for each process.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

MEETING_S = 20.0
"""How long a rank waits for the others before it goes on alone: not every program calls its optimizer on all ranks."""
_LOOK_S = 0.0005


def placed(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec with this process's ``rank``, ``local_rank`` and ``world_size``, where the job has ranks."""
    if not spec.get("ranked"):
        return spec
    known = {name: _number(name.upper()) for name in ("rank", "local_rank", "world_size")}
    if known["rank"] is None:
        raise RuntimeError("no RANK in the environment: torchrun did not start this process")
    return {**spec, **known}


def _number(variable: str) -> int | None:
    try:
        return int(os.environ[variable])
    except (KeyError, ValueError):
        return None


def file_of(spec: dict[str, Any], name: str) -> str:
    """The name of one of this rank's files: ``rank3.pt.trace.json.gz`` for ``trace.pt.trace.json.gz``."""
    rank = spec.get("rank")
    if rank is None:
        return name
    first, _, rest = name.partition(".")
    return f"rank{rank}.{rest if first == 'trace' else name}"


def told(spec: dict[str, Any]) -> bool:
    """Whether this process tells the parent how far the run is: of a machine's ranks the first does."""
    return not spec.get("local_rank")


def identity(spec: dict[str, Any]) -> dict[str, Any]:
    """Who this rank is, for run.json (`parsers.runs.manifest.Rank`)."""
    return {
        "rank": spec["rank"],
        "local_rank": spec.get("local_rank"),
        "world_size": spec.get("world_size"),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "gpu_uuid": _gpu(),
    }


def _gpu() -> str | None:
    """The UUID of the GPU that this process uses; to ask must not make it use one."""
    try:
        import torch

        if not torch.cuda.is_initialized():
            return None
        found = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
        return None if found is None else str(found)
    except (ImportError, RuntimeError, AssertionError):
        return None


def end_with_the_others() -> None:
    """Makes SIGTERM, which torchrun sends to the ranks that are left when one has failed, an interrupt.

    A rank that waits on its GPU for the one that failed runs no Python code, so a thread hears of the signal too, and
    aborts what the rank waits for. Then what was recorded is written.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    heard, said = os.pipe()
    os.set_blocking(said, False)
    signal.set_wakeup_fd(said, warn_on_full_buffer=False)
    threading.Thread(target=_abort_on_end, args=(heard,), daemon=True).start()


def _abort_on_end(heard: int) -> None:
    while signal.SIGTERM not in os.read(heard, 64):
        pass
    try:
        from torch.distributed import distributed_c10d as c10d

        if c10d.is_initialized():
            c10d._abort_process_group()
    except Exception:  # torch before 2.6 has no such function, and there is nobody left to tell
        return


def agreed(spec: dict[str, Any], number: int, wants: bool) -> bool:
    """Whether to go on with a step that not all ranks may want: what the first rank wants, all do.

    Args:
        spec: with this process's rank.
        number: which step it is, the same on all ranks.
        wants: what this rank would do alone.
    """
    store = _store() if spec.get("rank") is not None else None
    if store is None:
        return wants
    key = f"tracetui/go/{number}"
    if spec["rank"] == 0:
        store.set(key, "1" if wants else "0")
        return wants
    return bool(store.get(key) == b"1")


def meet(spec: dict[str, Any], place: str) -> str | None:
    """Waits until all ranks have come to this place of the program; at most `MEETING_S` seconds.

    The ranks meet in the store of the process group, not in a collective: whatever the program itself communicates is
    not disturbed, and a rank that never comes makes no other hang.

    Returns:
        A sentence if they did not meet; None if they did, or there is nobody to meet.
    """
    world = spec.get("world_size") or 1
    if spec.get("rank") is None or world < 2:
        return None
    store = _store()
    alone = f"the ranks did not wait for each other before the {place} steps"
    if store is None:
        return f"{alone}: no process group was there yet"
    key = f"tracetui/{place}"
    until = time.monotonic() + MEETING_S
    store.add(key, 1)
    while int(store.add(key, 0)) < world:
        if time.monotonic() > until:
            return f"{alone}: not all came within {MEETING_S:g} s"
        time.sleep(_LOOK_S)
    return None


def first_says(spec: dict[str, Any], what: str, number: Callable[[], int]) -> int:
    """A number that the first rank finds, which the others are told; 0 where they are not told in time."""
    store = _store() if spec.get("rank") is not None else None
    if store is None:
        return number() if not spec.get("rank") else 0
    key = f"tracetui/{what}"
    if spec["rank"] == 0:
        found = number()
        store.set(key, str(found))
        return found
    until = time.monotonic() + MEETING_S
    while not store.check([key]):
        if time.monotonic() > until:
            return 0
        time.sleep(_LOOK_S)
    return int(store.get(key))


def _store() -> Any:
    """The store in which the ranks found each other; None without a process group."""
    try:
        import torch.distributed as dist
        from torch.distributed import distributed_c10d as c10d

        return c10d._get_default_store() if dist.is_available() and dist.is_initialized() else None
    except (ImportError, AttributeError, RuntimeError, ValueError):
        return None
