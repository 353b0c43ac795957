"""The commands that show the screen; `open` without a terminal prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.cli import given
from tracetui.app.cli.given import check_there, is_utf8, paths_of, request_of, sample, scope_of, warn
from tracetui.app.cli.options.shared import SAMPLES
from tracetui.app.cli.summaries import is_folder_of_summaries
from tracetui.app.text.exit_codes import DONE

if TYPE_CHECKING:
    import argparse

    from tracetui.app.settings.schema import Settings


def run_start(settings: Settings) -> int:
    """Runs without a command: shows what can be opened."""
    samples = [sample(next(iter(SAMPLES)))]
    if given.has_terminal():
        from tracetui.app.screen.run import run_tui

        return run_tui(
            (),
            samples=samples,
            color=settings.color,
            ascii=settings.ascii,
            mouse=settings.mouse,
            driver=settings.driver,
            low_bandwidth=settings.low_bandwidth,
            cache=settings.cache,
            settings=settings,
        )
    warn(settings, unread=True)
    from tracetui.app.screen.dialogs.start_list import entries, plain, recordings_in

    print(plain(entries(Path.cwd(), recordings_in(Path.cwd())), ascii=not is_utf8()))
    return DONE


def run_open(arguments: argparse.Namespace) -> int:
    """Runs `tracetui open`."""
    paths = paths_of(arguments)
    check_there(paths)
    if len(paths) == 1 and is_folder_of_summaries(paths[0]):
        from tracetui.app.cli.commands.ranks import print_summaries, recordings_of

        if not given.has_terminal():
            warn(arguments.settings, unread=True)
            return print_summaries(paths[0], request_of(arguments))
        paths = (recordings_of(paths[0]) or paths[0],)
    if not given.has_terminal():
        from tracetui.app.cli.headless import print_open

        warn(arguments.settings, unread=False)
        return print_open(paths, request_of(arguments))
    from tracetui.app.screen.run import run_tui

    return run_tui(
        paths,
        scope=scope_of(arguments),
        rank=arguments.rank,
        source=arguments.source,
        tab=arguments.tab,
        filter=arguments.filter,
        run=arguments.run,
        color=arguments.color,
        ascii=arguments.ascii,
        mouse=arguments.mouse,
        driver=arguments.driver,
        low_bandwidth=arguments.low_bandwidth,
        cache=arguments.cache,
        settings=arguments.settings,
    )


def run_serve(arguments: argparse.Namespace) -> int:
    """Runs `tracetui serve`."""
    from tracetui.app.cli.serve import serve

    check_there(paths_of(arguments))
    return serve(
        arguments.words,
        host=arguments.host,
        port=arguments.port,
        with_token=not arguments.no_token,
        allow_write=arguments.allow_write,
    )
