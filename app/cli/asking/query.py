"""`tracetui query`: runs one SELECT over the frames of a recording and prints the result."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.cli import headless
from tracetui.app.cli.asking.options import split_asked
from tracetui.app.cli.options.shared import SAMPLES
from tracetui.app.text.exit_codes import DONE, UsageError
from tracetui.app.text.fitting import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from tracetui.analysis.findings.config import Config
    from tracetui.analysis.query.ask import Answer
    from tracetui.analysis.scope import Scope
    from tracetui.app.cli.request import Request
    from tracetui.parsers import Run, Trace

TEXT_ROWS = 100
"""Rows of text and Markdown, unless --limit says otherwise."""
SCHEMA = "tracetui.query-frames/1"


def query_command(
    arguments: argparse.Namespace, scope: Scope, paths_of: Callable[[argparse.Namespace], Sequence[Path]]
) -> int:
    """Runs the command.

    Args:
        arguments: what was typed; ``asked`` are the paths and the query.
        scope: what of the recording the frames have.
        paths_of: the paths to open, with the sample's.

    Raises:
        UsageError: a path or the query is missing.
    """
    from tracetui.app.cli.request import Request

    request = Request(
        scope,
        rank=arguments.rank,
        source=arguments.source,
        run=arguments.run,
        format=arguments.format,
        limit=arguments.most_rows,
        output=arguments.output,
        force=arguments.force,
        ascii=arguments.ascii,
        cache=arguments.cache,
        debug=arguments.debug,
    )
    if arguments.schema:
        return print_frames(arguments.asked, request)
    if arguments.sample is not None and arguments.sample not in SAMPLES:
        if " " not in arguments.sample.strip():
            raise UsageError(f"--sample {arguments.sample}: there are {', '.join(SAMPLES)}")
        # `query --sample 'select …'`: argparse took the query for the sample's name
        arguments.asked, arguments.sample = [arguments.sample, *arguments.asked], next(iter(SAMPLES))
    try:
        given, sql = split_asked(arguments.asked, sample=arguments.sample is not None)
    except ValueError as error:
        raise UsageError(str(error)) from None
    arguments.paths = [Path(path) for path in given]
    return print_query(paths_of(arguments), sql, request, seconds=arguments.timeout)


def print_query(paths: Sequence[Path], sql: str, request: Request, *, seconds: float) -> int:
    """Prints the result of a query."""
    from tracetui.app.reports import answer as written
    from tracetui.app.reports.layout import Layout

    headless.check_output(request, paths)
    if sql == "-":
        sql = sys.stdin.read()
    _check_installed()
    run, config = headless.opened(paths, request)
    trace = one_recording(run)
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


def one_recording(run: Run) -> Trace:
    """The recording that the frames are of: the main one; says so on standard error where there are several."""
    trace = run.main
    if len(run.ranks) > 1 or len(run.of_kind(trace.info.kind)) > 1:
        many = len(run.traces) + len(run.unread)
        which = f"rank {trace.info.rank}" if trace.info.rank is not None else trace.source.path.name
        line = f"{run.path} holds {many} recordings: the frames are of {which}; --rank N or --source KIND picks another"
        print(f"tracetui: {printable(line)}", file=sys.stderr)
    return trace


def print_frames(names: Sequence[str], request: Request) -> int:
    """Prints the frames with their columns."""
    from tracetui.analysis.query.frames import frames

    known = frames()
    for name in names:
        if name not in known:
            raise UsageError(f"no frame named {name!r}; there are {', '.join(known)}")
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


def _check_installed() -> None:
    from tracetui.analysis.query.ask import NEEDS, is_there

    if not is_there():
        raise UsageError(NEEDS)
