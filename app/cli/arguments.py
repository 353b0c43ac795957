"""Declares every command with its options; `cli.main` runs them.

argparse only, so that `--help` and `--version` answer without Polars and Textual.
"""

from __future__ import annotations

import argparse
from typing import NoReturn

from tracetui.app.cli.asking.options import add_mcp, add_query, add_schema, add_skill
from tracetui.app.cli.options import files, lists, reports, screen
from tracetui.app.cli.options.profile import add_profile
from tracetui.app.cli.options.prove import add_prove
from tracetui.app.cli.options.shared import add_run, common_options, scope_options
from tracetui.app.text.exit_codes import DONE

EXIT_CODES = """\
exit codes:
  0  done
  1  the input can't be read (one line on standard error says which file and why)
  2  wrong usage
  3  a --fail-on condition holds
  4  a --fail-on condition can't be judged: the runs did other work
"""


def build_parser() -> argparse.ArgumentParser:
    """Builds the parser with all commands and options."""
    parser = argparse.ArgumentParser(
        prog="tracetui",
        description="Explore GPU performance traces in the terminal: what is slow, and why.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    parser.add_argument("--debug", action="store_true", help="show a traceback if something goes wrong")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", help="without a command: list what was opened lately"
    )
    common = common_options()
    scope = scope_options()
    screen.add_open(commands, [common, scope])
    reports.add_report(commands, [common, scope])
    reports.add_check(commands, [common, scope])
    reports.add_diff(commands, [common, scope])
    reports.add_sweep(commands, [common])
    reports.add_ranks(commands, [common])
    query = add_query(commands, [common, scope])
    add_run(query, "the run to use if a folder holds several, by letter or name (default: the newest)")
    add_profile(commands, common)
    add_prove(commands, common)
    lists.add_models(commands)
    lists.add_rules(commands)
    files.add_scrub(commands)
    files.add_cut(commands)
    lists.add_doctor(commands)
    screen.add_serve(commands, [common, scope])
    add_skill(commands)
    add_schema(commands)
    add_mcp(commands, common)
    lists.add_config(commands)
    lists.add_completion(commands)
    lists.add_cache(commands)
    return parser


class _Version(argparse.Action):
    """Looks up the version only on request: reading package metadata takes longer than everything else here."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(f"tracetui {version('tracetui')}")
        parser.exit(DONE)
