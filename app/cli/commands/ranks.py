"""`tracetui ranks`: summarises the ranks of a job, on this machine or a cluster, and compares them."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracetui.app.cli import headless
from tracetui.app.cli.command import option
from tracetui.app.cli.options import ANY_RUN, Common, Printed, Request, check_there
from tracetui.app.cli.values import count, job_part, path_or_url, positive, steps
from tracetui.app.text.exit_codes import DONE, UsageError
from tracetui.app.text.fitting import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tracetui.analysis.ranks.files.listing import Listing
    from tracetui.analysis.ranks.files.reading import Cluster, Summaries
    from tracetui.analysis.ranks.files.store import Store
    from tracetui.analysis.report.model import RanksReport

DASK_SECONDS = 15
"""How long a scheduler may take to answer."""
NO_WORKERS_SECONDS = 30
"""A scheduler that has had no worker for so long is told of."""
SUMMARIES = ".tracetui-rank"
"""`analysis.ranks.files.store.SUFFIX`."""


@dataclass(kw_only=True)
class Options(Printed, Common):
    """Summarise every rank of a job, some tens of kilobytes each, and compare them. Summaries are kept and used again,
    in the user's cache or with --into in a folder, which `tracetui open` shows without the recordings.
    """

    path: Path | str = option(
        type=path_or_url,
        metavar="DIR",
        help="a folder of recordings, or of their summaries; a URL needs tracetui[remote]",
    )
    run: str | None = option("--run", metavar="NAME", help=ANY_RUN.replace("the run", "the job"))
    steps: tuple[int, int] | None = option(
        "--steps", type=steps, metavar="FIRST-LAST", help="only these steps: 3 or 2-5"
    )
    skip_steps: int = option(
        "--skip-steps", type=count, default=0, metavar="N", help="leave out the first N steps (warm-up)"
    )
    jobs: int | None = option(
        "--jobs", type=positive, metavar="N", help="processes (default: as many as cores, if memory allows)"
    )
    part: tuple[int, int] | None = option(
        "--part", type=job_part, metavar="I/N", help="only part I of N, the first being 0: an element of a job array"
    )
    into: Path | str | None = option(
        "--into", type=path_or_url, metavar="OUT", help="the folder, or URL, for the summaries (default: the cache)"
    )
    dask: str | None = option("--dask", metavar="ADDRESS", help="a Dask scheduler, or its file (needs tracetui[dask])")
    wait: int | None = option(
        "--wait", type=positive, metavar="SECONDS", help="end, with 1, if --dask has no workers for so long"
    )


def run(options: Options) -> int:
    """Summarises the ranks of a job, and prints what they say together."""
    path = options.path
    check_there(_here(path))
    headless.check_output(options, _here(path))
    if options.wait is not None and options.dask is None:
        raise UsageError("--wait needs --dask: it is how long a cluster may have no workers")
    if options.part is not None and options.into is None:
        raise UsageError("--part needs --into: the folder in which the parts come together")
    from tracetui.analysis.ranks.files.store import store_at

    with store_at(options.into) as into:
        listing = _listing(options, into)
        if listing is None:
            return DONE
        for problem in listing.problems:
            print(f"tracetui: warning: {printable(problem)}", file=sys.stderr)
        summaries = _summarised(listing, options, into)
    if options.part is not None:
        print(f"tracetui: {_part_line(summaries, options)}", file=sys.stderr)
        return DONE
    _print(summaries, path, options)
    return DONE


def _here(path: Path | str) -> list[Path]:
    """The path, if it is of this machine."""
    return [path] if isinstance(path, Path) else []


def _listing(options: Options, into: Store | None) -> Listing | None:
    """The job's recordings; None of a folder of summaries, of which it prints what they say."""
    from tracetui.analysis.ranks.files.listing import looked_into, shared

    path = options.path

    def make() -> Listing | None:
        with looked_into(path) as found:
            if not is_summaries(found.folder):
                return found.listing(_chooser(path, options), cache=options.cache)
            if any(value is not None for value in (options.jobs, options.part, into, options.dask)):
                raise UsageError(f"{path} has summaries: --jobs, --part, --into and --dask are for recordings")
            print_summaries(found.folder, options, path)
            return None

    if options.part is None or into is None:
        return make()
    asked = str(path.absolute() if isinstance(path, Path) else path), options.run
    return shared(into, asked, make)


def is_folder_of_summaries(path: Path) -> bool:
    """Whether a folder has summaries of ranks and no recordings; what tells is imported only where names say so."""
    if not path.is_dir() or not any(name.endswith(SUMMARIES) for name in os.listdir(path)):  # noqa: PTH208
        return False
    return is_summaries(path)


def is_summaries(path: Path) -> bool:
    """Whether this is a folder of summaries without the recordings they were made from."""
    from tracetui.analysis.ranks.files.store import is_store
    from tracetui.parsers.runs.detect import files_below, looks_like_trace

    return is_store(path) and not any(looks_like_trace(file) for file in files_below(path))


def print_summaries(path: Path, request: Request, named: Path | str = "") -> int:
    """Prints what the summaries in a folder, which may be named otherwise, say; their recordings need not be here."""
    from tracetui.analysis.ranks.files.reading import of_store
    from tracetui.analysis.ranks.files.store import Store

    headless.check_output(request, [path])
    _print(of_store(Store(path)), named or path, request)
    return DONE


def recordings_of(path: Path) -> Path | None:
    """The folder of the recordings that the summaries in a folder were made from; None where it is not here.

    The summaries become those of that folder, so that opening it reads no recording for them. Where they are not those
    of all its ranks, as before the last part is done, it would show none of them: then it is None, too.
    """
    from tracetui.analysis.ranks.files.reading import job_folder
    from tracetui.analysis.ranks.files.store import CachedStore, Store
    from tracetui.parsers.errors import TraceError
    from tracetui.parsers.runs.opening import find_ranks

    entries = Store(path).entries()
    sources = [Path(entry.source) for entry in entries]
    if not sources or not all(source.is_file() for source in sources):
        return None
    files, _ = find_ranks(*sources)
    folder = job_folder(files)
    with suppress(TraceError):
        if {file.rank for file in find_ranks(folder)[0]} > {entry.summary.rank for entry in entries}:
            return None
    CachedStore(folder).gather(entries)
    return folder


def _summarised(listing: Listing, options: Options, into: Store | None) -> Summaries:
    from tracetui.analysis.ranks.files.reading import read
    from tracetui.analysis.ranks.files.store import WHOLE, stores

    files = listing.files
    kept, also = stores(listing.job)
    name = WHOLE
    if options.part is not None:
        number, whole = options.part
        name = f"part-{number}-of-{whole}"
        ranks = sorted({file.rank for file in files})
        mine = set(ranks[number * len(ranks) // whole : (number + 1) * len(ranks) // whole])
        files = tuple(file for file in files if file.rank in mine)
        for each in filter(None, (into, *also)):
            each.read_only_of(name, [file.name for file in files])
    store: Store | None = kept if options.cache else None
    if into is not None:
        store, also = into, [*([kept] if options.cache else []), *also]
        if not files:
            into.gather((), name)  # more parts than ranks: it is done, and nothing of it is missing
    # what prints is imported while the workers read: it would come before or after them else
    threading.Thread(target=_printers, args=(options.format,), daemon=True).start()
    with _executor(options) as executor, headless.job_progress() as progress:
        return read(files, store, also=also, executor=executor, jobs=options.jobs, progress=progress, gathered=name)


def _part_line(found: Summaries, options: Options) -> str:
    from tracetui.analysis.base.number_format import format_count, spans

    number, whole = options.part or (0, 1)
    ranks = f" (rank {spans({one.rank for one in found.ranks})})" if found.ranks else ""
    said = f"part {number} of {whole}: {format_count(len(found.ranks))} summaries{ranks} in {options.into}"
    said += "".join(f"; rank {rank}: {why}" for rank, _, why in found.problems)
    return printable(said)


def _chooser(path: Path | str, request: Request) -> Callable[[Sequence[str]], int] | None:
    from tracetui.app.session.open_runs import chooser

    return None if request.run is None else chooser(request.run, str(path))


@contextmanager
def _executor(options: Options) -> Iterator[Cluster | None]:
    """The executor of a Dask cluster; None for processes of this machine."""
    dask = options.dask
    if dask is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError:
        raise UsageError("--dask needs Dask: pip install 'tracetui[dask]', here and on the workers") from None
    where = {"scheduler_file": dask} if Path(dask).is_file() else {"address": dask}
    try:
        client = Client(**where, timeout=DASK_SECONDS)
    except (OSError, ValueError) as error:
        raise UsageError(f"--dask {dask}: no scheduler answers: {error}") from None
    from tracetui.analysis.ranks.files.reading import Cluster

    try:
        yield Cluster(client, _Waits(client, options))
    except KeyboardInterrupt:
        if options.cache or options.into is not None:
            print("tracetui: what was summarised is kept; the same command again goes on from there", file=sys.stderr)
        raise
    finally:
        client.close()


def _threads(client: Any) -> int:
    """How many threads the cluster has now; 0 where its scheduler does not answer."""
    try:
        return sum(client.nthreads().values())
    except OSError:
        return 0


class _Waits:
    """Tells of a cluster without workers, which may come later: adaptive clusters and queues begin with none."""

    def __init__(self, client: Any, options: Options) -> None:
        self._client, self._options = client, options
        self._since, self._told = time.monotonic(), False

    def __call__(self) -> None:
        """Called while nothing is done.

        Raises:
            TraceError: no worker came in the time that was given.
        """
        from tracetui.parsers.errors import TraceError

        now = time.monotonic()
        if _threads(self._client):
            self._since, self._told = now, False
            return
        where, seconds = f"the scheduler {self._options.dask}", self._options.wait
        if seconds is not None and now - self._since >= seconds:
            why = f"was not summarised whole: {where} has had no workers for {seconds} s"
            raise TraceError(self._options.path, why, "the same command goes on with what is not done")
        if not self._told and now - self._since >= NO_WORKERS_SECONDS:
            self._told = True
            text = f"{where} has no workers; waiting for them (--wait SECONDS ends that)"
            print(f"tracetui: {printable(text)}", file=sys.stderr)


def _printers(form: str) -> None:
    """Imports what `_print` needs."""
    import tracetui.analysis.report.ranks

    if form not in ("json", "csv"):
        import tracetui.app.reports.content.job  # noqa: F401


def _print(found: Summaries, path: Path | str, request: Request) -> None:
    from tracetui.analysis.report.ranks import ranks_report

    limit = request.rows if request.format in ("json", "csv") else None
    made = ranks_report(found, str(path), request.scope, limit)
    headless.write(_render(made, path, request), request, _here(path))


def _render(found: RanksReport, path: Path | str, request: Request) -> str:
    if request.format == "json":
        from tracetui.app.reports.json_report import to_json

        return to_json(found)
    if request.format == "csv":
        from tracetui.analysis.tables.ranks import RANKS
        from tracetui.app.reports.csv_report import plain_csv

        return plain_csv(found.ranks, RANKS.csv_header)
    from tracetui.app.reports.content.job import ranks_parts

    # a URL can't be opened on the screen
    opens = headless.opening(_here(path), request, tab="ranks") if _here(path) else ()
    return headless.laid_out(ranks_parts, found, request, opens=opens)
