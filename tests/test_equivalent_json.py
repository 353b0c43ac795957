"""Keys of one recording, spelled in other ways that JSON allows; whole files are spelled so by `fuzz.equivalent`."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from sample_runs import DATA

from tracetui.parsers import open_path

RECORDING = json.loads(gzip.decompress((DATA / "ops/ops.trace.json.gz").read_bytes()))


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
