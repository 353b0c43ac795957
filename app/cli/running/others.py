"""The commands that copy recordings, prove changes, and tell of the program and the machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.cli.given import check_there
from tracetui.app.text.exit_codes import DONE, UsageError

if TYPE_CHECKING:
    import argparse


def run_prove(arguments: argparse.Namespace) -> int:
    """Runs `tracetui prove`."""
    from tracetui.app.cli.commands.prove import prove_command
    from tracetui.collectors.request import ProfileError

    check_there([arguments.path])
    try:
        return prove_command(arguments, arguments.program)
    except ProfileError as problem:
        raise UsageError(str(problem)) from problem


def run_models(arguments: argparse.Namespace) -> int:
    """Runs `tracetui models`."""
    from tracetui.app.cli.models_list import print_models

    return print_models(arguments.name, format=arguments.format, python=arguments.python, ascii=arguments.ascii)


def run_rules(arguments: argparse.Namespace) -> int:
    """Runs `tracetui rules`."""
    from tracetui.analysis.findings.config import load
    from tracetui.app.cli.rules_list import print_rules
    from tracetui.app.text.fitting import printable

    config = load(Path.cwd())
    for problem in config.problems:
        print(f"tracetui: warning: {printable(problem)}", file=sys.stderr)
    return print_rules(arguments.id, config, format=arguments.format, ascii=arguments.ascii)


def run_scrub(arguments: argparse.Namespace) -> int:
    """Runs `tracetui scrub`."""
    from tracetui.app.cli.scrub import scrub_command

    return scrub_command(
        arguments.paths,
        arguments.output,
        force=arguments.force,
        names=arguments.names,
        strict=arguments.strict,
        ascii=arguments.ascii,
    )


def run_cut(arguments: argparse.Namespace) -> int:
    """Runs `tracetui cut`."""
    from tracetui.app.cli.commands.cut import cut_command

    return cut_command(
        arguments.path,
        arguments.begin,
        arguments.end,
        steps=arguments.steps,
        output=arguments.output,
        force=arguments.force,
        cache=arguments.cache,
        ascii=arguments.ascii,
    )


def run_doctor(arguments: argparse.Namespace) -> int:
    """Runs `tracetui doctor`."""
    from tracetui.app.cli.doctor import doctor_command, measure_command

    if arguments.measure_peaks:
        return measure_command(arguments.python, format=arguments.format, ascii=arguments.ascii)
    return doctor_command(arguments.python, arguments.output, format=arguments.format, ascii=arguments.ascii)


def run_config(arguments: argparse.Namespace) -> int:
    """Runs `tracetui config`."""
    from tracetui.app.cli.commands.config import config_command

    return config_command(arguments)


def run_completion(arguments: argparse.Namespace) -> int:
    """Runs `tracetui completion`."""
    from tracetui.app.cli.completion import script as completion_script

    sys.stdout.write(completion_script(arguments.shell))
    return DONE


def run_cache(arguments: argparse.Namespace) -> int:
    """Runs `tracetui cache`."""
    from tracetui.app.cli.headless import cache_command

    return cache_command(clear=arguments.action == "clear")
