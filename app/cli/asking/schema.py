"""`tracetui schema`: prints the JSON Schema of an output."""

from __future__ import annotations

import json
import sys

from tracetui.app.text.exit_codes import DONE, UsageError


def print_schema(output: str, key: str | None = None) -> int:
    """Prints the schema of an output, or of one of its keys."""
    from tracetui.analysis.schemas.others import json_schema, part_of

    found = json_schema(output)
    if key is not None:
        part = part_of(found, key)
        if part is None:
            raise UsageError(f"{output} has no key {key!r}")
        found = part
    sys.stdout.write(json.dumps(found, ensure_ascii=not _is_utf8(), indent=1) + "\n")
    return DONE


def _is_utf8() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"
