"""Makes CUDA memory snapshots for tests: a small caching allocator that keeps a history as PyTorch's does."""

import pickle
import random
from pathlib import Path
from typing import Any

SEGMENT = 2 << 20
START = 1_795_150_494_000_000
FRAMES = [
    [
        {"filename": "??", "line": 0, "name": "c10::cuda::malloc(unsigned long)"},
        {"filename": "/venv/lib/python3.11/site-packages/torch/nn/functional.py", "line": 10 + n, "name": "linear"},
        {"filename": f"/home/me/model_{n}.py", "line": 7, "name": "forward"},
        {"filename": "/home/me/train.py", "line": 3, "name": "<module>"},
    ]
    for n in range(5)
]
FREEING = [{"filename": "/home/me/freeing.py", "line": 1, "name": "who frees is not who allocated"}]


class Allocator:
    """One device: first fit in segments of 2 MiB; `held` is what is allocated after each event of the whole history."""

    def __init__(self, device: int = 0, *, round_to: int = 512) -> None:
        self.device = device
        self.round_to = round_to
        self.history: list[dict[str, Any]] = []
        self.held: list[tuple[int, int]] = []
        """(allocated, reserved) after each event, in rounded bytes."""
        self.segments: dict[int, list[list[Any]]] = {}
        """Blocks [address, size, state, requested, frames] by segment."""
        self.time = START
        self.live: dict[int, int] = {}
        self._next = 0x7F0000000000 + (device << 32)

    def _note(self, action: str, **values: Any) -> None:
        self.time += 7
        self.history.append({"action": action, "stream": 0, "time_us": self.time, **values})
        used = sum(b[1] for blocks in self.segments.values() for b in blocks if b[2] == "active_allocated")
        self.held.append((used, sum(b[1] for blocks in self.segments.values() for b in blocks)))

    def alloc(self, requested: int, frames: list[dict[str, Any]] | None = None) -> int:
        size = -(-requested // self.round_to) * self.round_to
        frames = FRAMES[0] if frames is None else frames
        while True:
            for blocks in self.segments.values():
                for place, (address, room, state, _, _) in enumerate(blocks):
                    if state == "inactive" and room >= size:
                        blocks[place : place + 1] = [[address, size, "active_allocated", requested, frames]]
                        if room > size:
                            blocks.insert(place + 1, [address + size, room - size, "inactive", 0, []])
                        self.live[address] = requested
                        self._note("alloc", addr=address, size=requested, frames=frames)
                        return address
            base, self._next = self._next, self._next + (SEGMENT << 1)
            self.segments[base] = [[base, SEGMENT, "inactive", 0, []]]
            self._note("segment_alloc", addr=base, size=SEGMENT, frames=frames)

    def _block(self, address: int) -> tuple[list[list[Any]], int]:
        for blocks in self.segments.values():
            for place, block in enumerate(blocks):
                if block[0] == address:
                    return blocks, place
        raise KeyError(address)

    def request_free(self, address: int) -> None:
        blocks, place = self._block(address)
        blocks[place][2] = "active_awaiting_free"
        size = self.live.pop(address)
        self._note("free_requested", addr=address, size=size, frames=FREEING)

    def complete_free(self, address: int) -> None:
        blocks, place = self._block(address)
        size = blocks[place][3]
        blocks[place][2:] = ["inactive", 0, []]
        for at in (place, place - 1):
            if 0 <= at < len(blocks) - 1 and blocks[at][2] == blocks[at + 1][2] == "inactive":
                blocks[at][1] += blocks.pop(at + 1)[1]
        self._note("free_completed", addr=address, size=size, frames=FREEING)

    def free(self, address: int) -> None:
        self.request_free(address)
        self.complete_free(address)

    def release(self) -> None:
        for base, blocks in list(self.segments.items()):
            if len(blocks) == 1 and blocks[0][2] == "inactive":
                del self.segments[base]
                self._note("segment_free", addr=base, size=SEGMENT, frames=[])

    def oom(self, size: int, device_free: int) -> None:
        self._note("oom", size=size, device_free=device_free, frames=FRAMES[1])

    def end_state(self) -> list[dict[str, Any]]:
        found = []
        for base, blocks in self.segments.items():
            used = [b for b in blocks if b[2] == "active_allocated"]
            found.append(
                {
                    "device": self.device,
                    "address": base,
                    "total_size": sum(b[1] for b in blocks),
                    "allocated_size": sum(b[1] for b in used),
                    "active_size": sum(b[1] for b in blocks if b[2] != "inactive"),
                    "requested_size": sum(b[3] for b in used),
                    "stream": 0,
                    "segment_type": "small",
                    "segment_pool_id": (0, 0),
                    "is_expandable": False,
                    "frames": [],
                    "blocks": [
                        {"address": a, "size": s, "requested_size": r, "state": state, "frames": f}
                        for a, s, state, r, f in blocks
                    ],
                }
            )
        return found


def churn(allocator: Allocator, events: int, seed: int, *, sizes: int = 512) -> Allocator:
    """Random allocations and frees; `sizes` is what every size is a multiple of."""
    chance = random.Random(seed)
    waiting: list[int] = []
    while len(allocator.history) < events:
        toss = chance.random()
        if waiting and toss < 0.2:
            allocator.complete_free(waiting.pop())
        elif allocator.live and toss < 0.48:
            address = chance.choice(sorted(allocator.live))
            allocator.request_free(address)
            waiting.append(address)
        elif toss > 0.995:
            allocator.release()
        else:
            allocator.alloc(sizes * chance.randrange(1, 300), chance.choice(FRAMES))
    return allocator


def snapshot(*allocators: Allocator, ring: int | None = None, **more: Any) -> dict[str, Any]:
    """What `_snapshot()` gives: of each history the last `ring` entries."""
    return {
        "segments": [segment for allocator in allocators for segment in allocator.end_state()],
        "device_traces": [a.history[-ring:] if ring else list(a.history) for a in allocators],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "secret_of_the_environment", "expandable_segments": False},
        "external_annotations": [],
        **more,
    }


def write(path: Path, value: Any, protocol: int = 4) -> Path:
    """Pickles a value to a file."""
    path.write_bytes(pickle.dumps(value, protocol))
    return path
