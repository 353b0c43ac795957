"""`tracetui reference schema`: prints the JSON Schema of an output."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from tracetui.app.cli.command import option
from tracetui.app.cli.options import Bare
from tracetui.app.text.exit_codes import DONE, UsageError

OUTPUTS = (
    "report", "headline", "diff", "sweep", "ranks", "check", "query", "frames", "rules", "models", "doctor", "config",
)  # fmt: skip
"""`analysis.schemas.outputs.OUTPUTS`."""


@dataclass(kw_only=True)
class Options(Bare):
    """Print the JSON Schema (draft 2020-12) of what a command prints with --format json; of the report also of one
    section: tracetui reference schema report kernels.
    """

    output: str = option(choices=OUTPUTS, help=f"one of {', '.join(OUTPUTS)}", metavar="OUTPUT")
    key: str | None = option(nargs="?", metavar="KEY", help="only this key, such as a section of the report")


def run(options: Options) -> int:
    """Prints the schema of an output, or of one of its keys."""
    from tracetui.analysis.schemas.outputs import json_schema, part_of

    schema = json_schema(options.output)
    if options.key is not None:
        part = part_of(schema, options.key)
        if part is None:
            raise UsageError(f"{options.output} has no key {options.key!r}")
        schema = part
    sys.stdout.write(json.dumps(schema, ensure_ascii=not _is_utf8(), indent=1) + "\n")
    return DONE


def _is_utf8() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"
