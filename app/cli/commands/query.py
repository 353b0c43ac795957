"""`tracetui query`: runs one SELECT over the frames of a recording and prints the result."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.cli import headless
from tracetui.app.cli.command import option, switch
from tracetui.app.cli.options import ANY_RUN, FORCE, OUTPUT, SAMPLES, Common, Covered, Recordings, format_option
from tracetui.app.cli.values import count
from tracetui.app.text.exit_codes import DONE, UsageError
from tracetui.parsers.errors import instead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.findings.config import Config
    from tracetui.analysis.query.ask import Answer
    from tracetui.analysis.scope import Scope
    from tracetui.app.cli.options import Request
    from tracetui.parsers import Run, Trace

SECONDS = 30
"""`analysis.query.ask.SECONDS`."""
TEXT_ROWS = 100
"""Rows of text and Markdown, unless --limit says otherwise."""
SCHEMA = "tracetui.query-frames/1"


def seconds(text: str) -> float:
    """Returns a time limit in seconds.

    Raises:
        argparse.ArgumentTypeError: it is none, or not between 0 and an hour.
    """
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 0 < number <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 3600 seconds")
    return number


@dataclass(kw_only=True)
class Options(Recordings, Covered, Common):
    """Run one SELECT over the frames of a recording (steps, host, device, memory, counters, collectives) and the
    report's tables (kernels, operators, ...), with DuckDB. Nothing else can be read, and nothing written. --schema
    lists what there is.
    """

    asked: list[str] = option(
        nargs="*",
        metavar="PATH SQL",
        help="a recording or a folder, then the query; - reads it from standard input",
        values="files",
    )
    sample: str | None = option(
        "--sample",
        nargs="?",
        const="vim_tiny",
        metavar="NAME",
        help="a recording that ships with tracetui",
        words=lambda: tuple(SAMPLES),
    )
    schema: bool = switch("--schema", help="list frames and columns with their units")
    format: str = format_option("text", "json", "markdown", "csv")
    most_rows: int | None = option(
        "--limit", type=count, metavar="N", help="rows; 0 for all (text shows 100, json and csv all)"
    )
    timeout: float = option(
        "--timeout",
        type=seconds,
        default=SECONDS,
        metavar="SECONDS",
        help="how long the query may run (default: %(default)s)",
    )
    output: Path | None = option("-o", "--output", type=Path, metavar="FILE", help=OUTPUT)
    force: bool = switch("--force", help=FORCE)
    run: str | None = option("--run", metavar="NAME", help=ANY_RUN)


def run(options: Options) -> int:
    """Prints the result of a query, or what can be asked.

    Raises:
        UsageError: a path or the query is missing.
    """
    options.limit = options.most_rows
    if options.schema:
        return print_frames(options.asked, options)
    words = list(options.asked)
    if options.sample is not None and options.sample not in SAMPLES:
        if " " not in options.sample.strip():
            raise UsageError(f"--sample {options.sample}: there are {', '.join(SAMPLES)}")
        # `query --sample 'select …'`: argparse took the query for the sample's name
        words, options.sample = [options.sample, *words], next(iter(SAMPLES))
    if not words:
        raise UsageError("no query given; `tracetui query --schema` lists what can be asked")
    if len(words) == 1 and options.sample is None:
        if Path(words[0]).exists():
            raise UsageError("no query given; it is the last word: tracetui query PATH 'select ...'")
        raise UsageError("no path given; `tracetui query --sample 'select ...'` takes one that ships with it")
    options.paths = [Path(path) for path in words[:-1]]
    return print_query(options.given_paths(), words[-1], options, seconds=options.timeout)


def print_query(paths: Sequence[Path], sql: str, request: Request, *, seconds: float) -> int:
    """Prints the result of a query."""
    from tracetui.analysis.query.ask import NEEDS, is_there
    from tracetui.app.reports import answer as written
    from tracetui.app.reports.layout import Layout

    headless.check_output(request, paths)
    if sql == "-":
        sql = sys.stdin.read()
    if not is_there():
        raise UsageError(NEEDS)
    run, config = headless.opened(paths, request)
    trace = headless.main_recording(run, "the frames are of")
    text = request.format in ("text", "markdown")
    limit = request.limit if request.limit is not None else TEXT_ROWS if text else None
    found = answer_of(
        run, trace, sql, config, scope=replace(request.scope, steps_by=None), limit=limit or None, seconds=seconds
    )
    if found.more and not text:
        print(f"tracetui: only the first {len(found.rows):,} rows are there", file=sys.stderr)
    if request.format == "json":
        from tracetui.app.reports.json_report import to_json

        laid = to_json(written.answer_json(found, origin(run, trace, sql)))
    elif request.format == "csv":
        laid = written.answer_csv(found)
    else:
        layout = Layout(ascii=headless.is_ascii(request))
        laid = (written.answer_text if request.format == "text" else written.answer_markdown)(found, layout)
    headless.write(laid, request, paths)
    return DONE


def answer_of(
    run: Run,
    trace: Trace,
    sql: str,
    config: Config | None,
    *,
    scope: Scope | None = None,
    limit: int | None = None,
    seconds: float = 30,
) -> Answer:
    """The result of a query over one recording of a run.

    Raises:
        UsageError: the query is refused, wrong, or exceeds a limit.
    """
    from tracetui.analysis.query import sources
    from tracetui.analysis.query.ask import QueryError

    try:
        return sources.answer_of(run, trace, sql, config, scope=scope or sources.WHOLE, limit=limit, seconds=seconds)
    except QueryError as error:
        raise UsageError(f"query: {error}") from None


def origin(run: Run, trace: Trace, sql: str) -> dict[str, object]:
    """What a result is of, for its JSON."""
    return {
        "path": str(run.path),
        "source": {"path": str(trace.source.path), "kind": trace.info.kind, "rank": trace.info.rank},
        "sql": sql,
    }


def print_frames(names: Sequence[str], request: Request) -> int:
    """Prints the frames with their columns."""
    from tracetui.analysis.query.frames import frames

    known = frames()
    names = [name for name in names if name in known or not Path(name).exists()]  # a recording's are those of all
    for name in names:
        if name not in known:
            raise UsageError(f"no frame named {name!r}; {instead(name, known)}")
    chosen = [known[name] for name in names or known]
    if request.format == "json":
        from tracetui.app.reports.json_report import to_json

        laid = to_json(frames_json(names))
    elif request.format == "csv":
        from tracetui.app.reports.csv_report import plain_csv

        rows = [
            {"frame": one.name, "column": column.name, "type": column.type, "unit": column.unit, "about": column.about}
            for one in chosen
            for column in one.columns
        ]
        laid = plain_csv(rows, ("frame", "column", "type", "unit", "about"))
    elif request.format == "markdown":
        laid = frames_markdown(names)
    else:
        from tracetui.app.reports.layout import Layout

        layout, lines = Layout(ascii=headless.is_ascii(request)), list[str]()
        for one in chosen:
            lines += [*([""] if lines else []), *layout.field(one.name, one.about, width=len(one.name) + 2)]
            for column in one.columns:
                unit = f", {column.unit}" if column.unit else ""
                lines += layout.field(f"  {column.name}", f"{column.type}{unit}: {column.about}", width=24)
        laid = "\n".join(lines) + "\n"
    headless.write(laid, request, ())
    return DONE


def frames_json(names: Sequence[str] = ()) -> dict[str, object]:
    """The frames of these names, or all, as the JSON contract."""
    from tracetui.analysis.query.frames import frames

    return {
        "schema": SCHEMA,
        "frames": [
            {
                "name": one.name,
                "about": one.about,
                "columns": [
                    {"name": column.name, "type": column.type, "unit": column.unit, "about": column.about}
                    for column in one.columns
                ],
            }
            for one in (frames()[name] for name in names or frames())
        ],
    }


def frames_markdown(names: Sequence[str] = ()) -> str:
    """The frames of these names, or all, with a table of columns each."""
    from tracetui.analysis.query.frames import frames

    lines = []
    for name in names or frames():
        one = frames()[name]
        lines += [f"### {one.name}", "", f"{one.about[:1].upper()}{one.about[1:]}.", ""]
        lines += ["| column | type | unit | meaning |", "|---|---|---|---|"]
        lines += [f"| `{c.name}` | {c.type} | {c.unit} | {c.about.replace('|', '/')} |" for c in one.columns]
        lines += [""]
    return "\n".join(lines)
