"""`tracetui open` and `tracetui serve`, which show the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.app.cli.options.shared import add_looks, add_run, add_sample
from tracetui.app.cli.options.values import input_path, port
from tracetui.app.terminal.choice import DRIVERS

if TYPE_CHECKING:
    from tracetui.app.cli.options.shared import Commands, Parents


def add_open(commands: Commands, parents: Parents) -> None:
    """Adds `tracetui open`."""
    parser = commands.add_parser(
        "open",
        parents=parents,
        help="explore a trace (prints the report if there is no terminal)",
        description="Explore a trace, a folder of traces, or several runs: the first two side by side. Without a "
        "terminal: the report.",
    )
    parser.add_argument(
        "paths",
        nargs="*",
        type=input_path,
        metavar="PATH",
        help="a trace or a folder; several paths become runs a, b, c, ...",
    )
    add_sample(parser)
    add_run(
        parser, "the run to view first, by letter or name, if a folder holds several runs or several paths are given"
    )
    parser.add_argument(
        "--tab",
        metavar="NAME",
        help="the tab to start on, by its name, the start of its name, or its key: overview, kern, 8",
    )
    parser.add_argument("--filter", metavar="TEXT", help="start with this filter")
    mouse = parser.add_mutually_exclusive_group()
    mouse.add_argument("--mouse", action="store_true", default=None, help="mouse on (default: off over SSH)")
    mouse.add_argument("--no-mouse", action="store_false", dest="mouse", help="mouse off")
    parser.add_argument(
        "--driver",
        choices=DRIVERS,
        help="what sends the screen: cells (only what differs), or stock (Textual's own) (default: auto)",
    )
    add_looks(parser)


def add_serve(commands: Commands, parents: Parents) -> None:
    """Adds `tracetui serve`."""
    parser = commands.add_parser(
        "serve",
        parents=parents,
        help="show the screen in a browser (needs tracetui[web])",
        description="Serve the screen to a browser on this machine, at an address with a token. Nothing is written or "
        "opened besides what is given. From elsewhere, go through SSH (ssh -L 8000:localhost:8000).",
    )
    parser.add_argument(
        "paths", nargs="*", type=input_path, metavar="PATH", help="a trace or a folder; a second one is B"
    )
    add_sample(parser)
    parser.add_argument("--tab", metavar="NAME", help="the tab to start on")
    parser.add_argument("--filter", metavar="TEXT", help="start with this filter")
    add_looks(parser)
    parser.add_argument("--host", default="localhost", help="the address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port",
        type=port,
        default=8000,
        metavar="N",
        help="the port to listen on; 0 for any free one (default: %(default)s)",
    )
    parser.add_argument("--no-token", action="store_true", help="an address without a token, open to all who reach it")
    parser.add_argument(
        "--allow-write", action="store_true", help="the browser may write files, open others, and is remembered"
    )
