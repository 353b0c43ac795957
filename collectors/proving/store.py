"""Writes `proofs.json`: what was measured now, beside what an earlier proof of the run left."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tracetui.collectors.folder import OWN_ONLY
from tracetui.collectors.request import ProfileError
from tracetui.parsers.runs.folder.proofs import FILE, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def check_writable(folder: Path) -> None:
    """Reports before anything is measured that the folder can't be written.

    Raises:
        ProfileError: it can't; says what to do.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = folder / f"{FILE}.partial"
        scratch.touch(mode=OWN_ONLY)
        scratch.unlink()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ProfileError(f"{folder}: {why}; --output DIR writes the proofs elsewhere") from error


def add(folder: Path, proofs: Sequence[dict[str, Any]]) -> Path:
    """Adds proofs; one of the same change replaces the earlier one, unless only the earlier one was measured.

    Raises:
        ProfileError: the file can't be written.
    """
    target = folder / FILE
    known = {_key(proof): proof for proof in _read(target)}
    for proof in proofs:
        before = known.get(_key(proof))
        if proof.get("gain_ns") is None and before is not None and before.get("gain_ns") is not None:
            continue
        known.pop(_key(proof), None)
        known[_key(proof)] = proof
    scratch = target.with_name(f"{FILE}.partial")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch.touch(mode=OWN_ONLY)
        scratch.write_text(json.dumps({"schema": SCHEMA, "proofs": list(known.values())}, indent=1) + "\n")
        scratch.replace(target)
    except OSError as error:
        raise ProfileError(f"{target}: {(error.strerror or str(error)).lower()}") from error
    return target


def _key(proof: dict[str, Any]) -> str:
    return json.dumps([proof.get("options"), proof.get("command")], sort_keys=True)


def _read(target: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads(target.read_text(encoding="utf-8"))
        proofs = found["proofs"]
    except (OSError, ValueError, TypeError, KeyError):
        return []
    return [proof for proof in proofs if isinstance(proof, dict)] if isinstance(proofs, list) else []
