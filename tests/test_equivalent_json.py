"""One recording, spelled in the many ways that JSON allows, is one recording."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from fuzz.spelled import Writer
from sample_runs import DATA

from tracetui.parsers import open_path
from tracetui.parsers.chrome import layout
from tracetui.parsers.trace import FRAMES

RECORDING = json.loads(gzip.decompress((DATA / "ops/ops.trace.json.gz").read_bytes()))


def all_of(path: Path) -> list[Any]:
    """All that a report is made of, but for places in the file."""
    trace = open_path(path, cache=False).main
    notes = tuple(note for note in trace.notes if note.reason != layout.TWICE)
    frames = [getattr(trace, name).drop("offset", strict=False).rows() for name in FRAMES]
    return [*frames, trace.info, notes, trace.source.events_total, trace.source.events_parsed]


def test_eight_spellings_are_one_recording(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps(RECORDING))
    expected = all_of(path)
    for seed in range(1, 9):
        path.write_text(Writer(seed).whole(RECORDING), encoding="utf-8")
        assert json.loads(path.read_text()).items() >= RECORDING.items() or Writer(seed).moves
        assert all_of(path) == expected, f"spelled by seed {seed}"


def test_a_key_is_the_same_whichever_of_its_letters_is_escaped(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    plain = json.dumps(RECORDING)
    path.write_text(plain)
    device = open_path(path, cache=False).main.device.drop("offset", strict=False)
    assert device["occupancy_percent"].drop_nulls().len()
    for key in ("est. achieved occupancy %", "blocks per SM", "cat", "correlation"):
        begin, *others = plain.split(f'"{key}"')
        assert len(others) >= len(key)  # each letter of it is escaped somewhere
        path.write_text(begin + "".join(_escaped(key, at % len(key)) + text for at, text in enumerate(others)))
        assert open_path(path, cache=False).main.device.drop("offset", strict=False).equals(device), key


def _escaped(key: str, at: int) -> str:
    return f'"{key[:at]}\\u{ord(key[at]):04x}{key[at + 1 :]}"'


@pytest.mark.parametrize("first", [True, False])
def test_keys_of_an_object_among_the_arguments_are_not_the_event_s(first: bool, tmp_path: Path) -> None:
    path = tmp_path / "one.json"

    def read(events: list[dict[str, Any]]) -> list[Any]:
        path.write_text(json.dumps({**RECORDING, "traceEvents": events}))
        trace = open_path(path, cache=False).main
        return [frame.drop("offset", strict=False).rows() for frame in (trace.host, trace.device)]

    expected = read(RECORDING["traceEvents"])
    others = {"bytes": 99, "graph node id": 99, "correlation": 99, "Input Dims": [[99]], "Sequence number": 9}
    for within in (lambda one: one, lambda one: [one], lambda one: {"deep": [[one]]}):
        events = []
        for number, event in enumerate(RECORDING["traceEvents"]):
            known = event.get("args")
            if known is not None and number % 9 < 5:
                another = {"another": within({key: value for key, value in others.items() if key not in known})}
                event = {**event, "args": {**another, **known} if first else {**known, **another}}
            events.append(event)
        assert read(events) == expected
