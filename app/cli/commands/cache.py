"""`tracetui config cache`: shows or empties the cache of parsed traces and printed reports."""

from __future__ import annotations

from dataclasses import dataclass

from tracetui.app.cli.command import option
from tracetui.app.cli.options import Bare
from tracetui.app.text.exit_codes import DONE


@dataclass(kw_only=True)
class Options(Bare):
    """Show or empty the cache of parsed traces and printed reports."""

    action: str = option(nargs="?", choices=("info", "clear"), default="info")


def run(options: Options) -> int:
    """Shows or empties the cache of parsed traces and printed reports, and of summaries of ranks if there are any."""
    from tracetui.analysis.base.number_format import format_bytes
    from tracetui.analysis.ranks.files import store
    from tracetui.app.text.fitting import printable
    from tracetui.parsers.runs import entries

    clear = options.action == "clear"
    jobs, size = store.cached()
    if clear:
        store.clear()
    held = entries.clear() if clear else entries.info()
    content = f"{held.traces} parsed trace{'' if held.traces == 1 else 's'}"
    if held.reports:
        content += f" and {held.reports} printed report{'' if held.reports == 1 else 's'}"
    content += f", {format_bytes(held.bytes)}"
    if clear:
        print(f"removed {content} from {printable(str(held.folder))}")
    else:
        print(f"{printable(str(held.folder))}: {content} of at most {format_bytes(held.limit)}")
    if jobs:
        content = f"summaries of the ranks of {jobs} job{'' if jobs == 1 else 's'}, {format_bytes(size)}"
        where = printable(str(store.cache_folder()))
        print(f"removed {content} from {where}" if clear else f"{where}: {content}")
    return DONE
