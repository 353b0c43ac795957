"""The commands that print what recordings say, and those for questions and programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tracetui.app.cli.given import check_there, paths_of, request_of, scope_of
from tracetui.app.cli.options.reports import PICTURES
from tracetui.app.cli.summaries import is_folder_of_summaries
from tracetui.app.text.exit_codes import DONE

if TYPE_CHECKING:
    import argparse


def run_report(arguments: argparse.Namespace) -> int:
    """Runs `tracetui report`."""
    if arguments.nsys_report:
        from tracetui.app.cli.headless import print_nsys_reports

        return print_nsys_reports(paths_of(arguments), arguments.nsys_report, request_of(arguments))
    if arguments.like:
        from tracetui.app.cli.commands.sweep import print_like

        return print_like(paths_of(arguments), arguments.like, request_of(arguments))
    paths = paths_of(arguments)
    if arguments.format in PICTURES:
        from tracetui.app.cli.commands.picture import print_picture

        return print_picture(paths, request_of(arguments))
    if len(paths) == 1 and is_folder_of_summaries(paths[0]):
        from tracetui.app.cli.commands.ranks import print_summaries

        return print_summaries(paths[0], request_of(arguments))
    from tracetui.app.cli.headless import print_report

    return print_report(paths, request_of(arguments))


def run_check(arguments: argparse.Namespace) -> int:
    """Runs `tracetui check`."""
    from tracetui.app.cli.commands.check import print_check

    return print_check(paths_of(arguments), request_of(arguments))


def run_diff(arguments: argparse.Namespace) -> int:
    """Runs `tracetui diff`."""
    if arguments.format in PICTURES:
        from tracetui.app.cli.commands.picture import print_diff_picture

        return print_diff_picture(arguments.a, arguments.b, request_of(arguments), fail_above_percent=arguments.fail_on)
    from tracetui.app.cli.headless import print_diff

    return print_diff(arguments.a, arguments.b, request_of(arguments), fail_above_percent=arguments.fail_on)


def run_sweep(arguments: argparse.Namespace) -> int:
    """Runs `tracetui sweep`."""
    from tracetui.analysis.scope import Scope
    from tracetui.app.cli.commands.sweep import print_sweep
    from tracetui.app.cli.request import Request

    request = Request(
        Scope(),
        format=arguments.format,
        sections=None if arguments.section is None else tuple(arguments.section),
        limit=arguments.limit,
        output=arguments.output,
        force=arguments.force,
        ascii=arguments.ascii,
        charts=arguments.charts,
        cache=arguments.cache,
        debug=arguments.debug,
    )
    return print_sweep(arguments.path, request)


def run_ranks(arguments: argparse.Namespace) -> int:
    """Runs `tracetui ranks`."""
    from tracetui.analysis.scope import Scope
    from tracetui.app.cli.commands.ranks import Work, print_ranks
    from tracetui.app.cli.request import Request

    request = Request(
        Scope(steps=arguments.steps, skip_steps=arguments.skip_steps),
        run=arguments.run,
        format=arguments.format,
        limit=arguments.limit,
        output=arguments.output,
        force=arguments.force,
        ascii=arguments.ascii,
        charts=arguments.charts,
        cache=arguments.cache,
        debug=arguments.debug,
    )
    check_there([arguments.path])
    return print_ranks(arguments.path, request, Work(arguments.jobs, arguments.part, arguments.into, arguments.dask))


def run_query(arguments: argparse.Namespace) -> int:
    """Runs `tracetui query`."""
    from tracetui.app.cli.asking.query import query_command

    return query_command(arguments, scope_of(arguments), paths_of)


def run_schema(arguments: argparse.Namespace) -> int:
    """Runs `tracetui schema`."""
    from tracetui.app.cli.asking.schema import print_schema

    return print_schema(arguments.output, arguments.key)


def run_skill(arguments: argparse.Namespace) -> int:
    """Runs `tracetui skill`."""
    from tracetui.app.cli.asking.skill import skill

    sys.stdout.write(skill())
    return DONE


def run_mcp(arguments: argparse.Namespace) -> int:
    """Runs `tracetui mcp`."""
    from tracetui.app.cli.asking.mcp import serve_mcp

    check_there(arguments.paths)
    return serve_mcp(arguments.paths, allow_run=arguments.allow_run, cache=arguments.cache)
