"""Copies of damaged files: what damage cut from what tells about it is not in them."""

from __future__ import annotations

import gzip
import json
import random
import re
from typing import TYPE_CHECKING

import planted
import pytest

from tracetui.collectors.scrub import scrub_file
from tracetui.collectors.scrubbing.redactor import Redactor

if TYPE_CHECKING:
    from pathlib import Path

CUT = ("Chrome", "JAX", "ncu", "run.json", "log.txt")
"""Formats of which a part can be read; a damaged database or a pickle that is cut off gives no copy."""


def _fragment(word: str, held: str) -> str | None:
    """A part of a word that is no chance."""
    return next((word[at : at + 7] for at in range(len(word) - 6) if word[at : at + 7] in held), None)


@pytest.mark.parametrize("form", CUT)
def test_a_secret_that_the_end_of_the_file_cuts_is_not_in_the_copy(tmp_path: Path, form: str) -> None:
    """A part of a key has no known form, but the text in which it stands has no end."""
    dice = random.Random(form)
    name, writer = planted._WRITERS[form]
    source, copy = tmp_path / name, tmp_path / "copies" / name
    what = [plant for plant in planted.plants(11) if len(plant.word) >= 7]
    tried = 0
    for plant in dice.sample(what, 60):
        before = dice.choice(what)
        writer(source, [before, plant], names=False)
        content = source.read_bytes()
        plain = gzip.decompress(content) if name.endswith(".gz") else content
        places = [match.start() for match in re.finditer(re.escape(plant.word.encode()), plain)]
        if not places:
            continue
        plain = plain[: dice.choice(places) + dice.randint(min(7, len(plant.word) - 1), len(plant.word) - 1)]
        source.write_bytes(gzip.compress(plain) if name.endswith(".gz") else plain)
        scrub_file(source, copy, Redactor(), force=True)
        held = planted.content(copy)
        assert _fragment(plant.word, held) is None, (plant, plain[-60:], held[-60:])
        tried += 1
    assert tried > 40


@pytest.mark.parametrize("args", ['"password": "zq81-kept", "n": 12.25', '"n": 12.25, "password": "zq81-kept"'])
def test_a_string_beside_damage_is_not_in_the_copy(tmp_path: Path, args: str) -> None:
    """What has lost its key, its quotes or its end can't be judged; intact events beside it are copied as they are."""
    path, copy = tmp_path / "a.json", tmp_path / "b.json"
    whole = {"ph": "X", "name": "aten::mm", "cat": "cpu_op", "ts": 1, "dur": 2.5, "pid": 1, "tid": 1, "args": {"n": 7}}
    damages = (
        ('"password"', '"pass\x00ord"'), ('"password": ', 'word": '), ('"password": ', '"password" '), (": ", ""),
        ('"zq', '"x" "zq'), ('ept"', 'ept"x'), ('ept"', "ept"), ('"zq', "zq"), ('ept"', 'ept\xff"'),
        ('"password"', '"passwo\\qrd"'), ('"password": ', '"password": "x", '), ('"password": ', '"password": 5, '),
    )  # fmt: skip
    for old, new in damages:
        damaged = json.dumps(whole | {"args": 0})[:-2] + "{" + args.replace(old, new, 1) + "}}"
        assert args.replace(old, new, 1) != args
        text = '{"traceEvents": [' + ", ".join([json.dumps(whole), damaged, json.dumps(whole)]) + "]}"
        path.write_bytes(text.encode("latin-1"))
        scrub_file(path, copy, Redactor(), force=True)
        left = copy.read_text("utf-8", "replace")
        assert "zq81" not in left, (old, new)
        assert left.count(json.dumps(whole)) == 2, (old, new)


def test_lines_of_a_log_that_are_not_whole_are_left_out(tmp_path: Path) -> None:
    path, copy = tmp_path / "log.txt", tmp_path / "copy.txt"
    path.write_text("began\nkey zq\n[123 bytes left out]\n71fe\nloss 0.5\nghp_zqtail")
    scrub_file(path, copy, Redactor())
    assert copy.read_text() == "began\n***\n[123 bytes left out]\n***\nloss 0.5\n***"
