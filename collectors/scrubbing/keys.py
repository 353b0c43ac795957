"""Tells from a key what its value is, in any JSON that a profiler or tracetui writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from tracetui.collectors.machine.masking import NUMBER, names_secret
from tracetui.collectors.scrubbing.marks import COMMAND, ENVIRONMENT, HOST, PLACE, SECRET, USER, UUID
from tracetui.collectors.scrubbing.redactor import Redactor

NAME, VALUE, KEPT, OWN, HASH, PROGRAM = "name", "value", "kept", "own manifest", "hash", "program"
PASSES = ("light", "rich")
"""Values of the key ``pass`` that a trace has beside the id of its run: which of the run's recordings it is."""
KEPT_NUMBERS = "version"
STALE = "no longer true"
"""The kind of values, such as checksums, that are wrong once the file has been rewritten."""
FOLDER = "folder"
LOST = "lost"
"""The kind of values whose key, or a part of their own, damage has taken away."""
EMPTIED = (COMMAND, ENVIRONMENT, UUID, SECRET)
"""Kinds whose values are replaced by empty ones, whatever they are."""

_KINDS = {
    HOST: "host hostname host_name nodename node_name machine_name computer_name master_addr fqdn",
    USER: "user username user_name login logname author email",
    COMMAND: "command commands cmd cmdline cmd_line command_line commandline argv git_branch",
    ENVIRONMENT: "env envs environ environment environment_variables env_vars envvars",
    UUID: "uuid gpu_uuid serial serial_number board_serial machine_id boot_id mac mac_address container_id pod_uid",
    FOLDER: "cwd pwd working_directory working_dir workdir home home_dir",
    NAME: "name cat hlo_op hlo_module tf_op hlo_category long_name input_type operation scope event collective_name "
    "process_group_name kernel_name backend",
    KEPT: "ph s bp ts dur displaytimeunit schemaversion schema status trace_id traceid",
    PROGRAM: "model",
    OWN: "tracetui",
    STALE: "sha256",
}
DEEPEST = 64
_VERSION = re.compile(r"[vV]?\d+(?:\.\d+)*(?:[-+.]?[\w.]+)?")
_HASH = re.compile(r"[a-z0-9]{8,64}|[A-Z0-9]{8,64}")
LONGEST_KEPT = 64
_BY_KEY = {key: kind for kind, keys in _KINDS.items() for key in keys.split()}


@lru_cache(maxsize=1 << 14)
def kind_of(key: str) -> str:
    """The kind of a key's value."""
    plain = key.strip().lower().replace(" ", "_").replace("-", "_")
    known = _BY_KEY.get(plain)
    if known is not None:
        return known
    if plain.endswith(("_env", "_environ", "_environment", "_env_vars")):
        return ENVIRONMENT
    if names_secret(plain):
        return SECRET
    if plain.endswith(("hash", "digest", "signature")) or plain.startswith(("hash_", "kernel_")):
        return HASH
    # four numbers of a version look like a network address
    return KEPT_NUMBERS if "version" in plain or plain in ("cudnn", "cupti", "driver", "nsys", "ncu") else VALUE


def replaced(redactor: Redactor, kind: str, text: str) -> str | None:
    """The text that replaces a value under a key of this kind; None if the value is removed."""
    if not text or (kind == KEPT and len(text) <= LONGEST_KEPT and not redactor.would_change(text)):
        return text
    if kind == NAME:
        return redactor.name(text)
    if kind == PROGRAM:  # the name of a model, or the whole command line of a user's own program
        return redactor.command(tuple(text.split(" "))) if " " in text or "/" in text else redactor.name(text)
    if kind == HASH and _HASH.fullmatch(text):
        return text
    if kind == KEPT_NUMBERS:
        return text if _VERSION.fullmatch(text) else redactor.value(text)
    if kind in (HOST, USER):
        redactor.learn(text, kind)
        return redactor.mark(kind, text)
    if kind == STALE:
        return None
    if kind == SECRET and (NUMBER.fullmatch(text) or text in PASSES):
        return text
    if kind in EMPTIED:
        redactor.count(kind)
        return None
    if kind == FOLDER:
        redactor.learn_from_path(text)
        redactor.count("path", text != PLACE)
        return PLACE
    if kind == OWN and text.lstrip().startswith("{"):
        try:
            return json.dumps(document(decoded(text), redactor))
        except (ValueError, RecursionError):  # such texts in each other may be too deep, too
            pass
    return redactor.value(text)


def decoded(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is no JSON, or nested deeper than anything that a profiler writes.
    """
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    level, depth = [value], 0
    while level := [item for each in level for item in _inside(each)]:
        depth += 1
        if depth > DEEPEST:  # newer Pythons decode what no recursion of ours could walk through
            raise ValueError("nested too deep")
    return value


def _inside(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def document(value: object, redactor: Redactor, kind: str = VALUE) -> Any:
    """A decoded JSON document without its private parts; numbers stay the same."""
    if isinstance(value, dict):
        if kind in EMPTIED:
            redactor.count(kind, len(value))
            return {}
        return {
            redactor.value(key) if isinstance(key, str) else key: document(item, redactor, kind_of(str(key)))
            for key, item in value.items()
        }
    if isinstance(value, list):
        if kind in EMPTIED:
            redactor.count(kind, bool(value))
            return []
        return [document(item, redactor, kind) for item in value]
    return replaced(redactor, kind, value) if isinstance(value, str) else value
