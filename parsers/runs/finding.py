"""Finds the files of a run, in a folder or as they were named one by one, and which light recording is of which run."""

from __future__ import annotations

import filecmp
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from itertools import combinations
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from tracetui.parsers.errors import TraceError, no_such
from tracetui.parsers.runs import manifest as run_manifest
from tracetui.parsers.runs.detect import Candidate, files_below, inspect, looks_like_trace, mentions
from tracetui.parsers.runs.manifest import RunManifest
from tracetui.parsers.runs.run import CAPTURE as CAPTURE_PASS
from tracetui.parsers.runs.run import LIGHT, RICH
from tracetui.parsers.tool_registry import BY_KIND, EXAMPLES, KINDS, REPORT, WITHOUT_KERNELS, WITHOUT_TIME_LINE, tool_of

_ENDS = 256
"""Bytes at both ends of files of one size that are compared before all of them."""
LEAST_SHARED = 0.5
"""Share of the kernels of the file with fewer of them that two files of one run have in common."""
_SUFFIXES = re.compile(r"(\.(\d{13,19}|pt|trace|json|gz|sqlite3?|db|csv|txt|log|pickle|pkl|nsys-rep|ncu-rep|qdrep))+$")
_WORD = re.compile(r"[a-z]+|\d+")
_SAYS_NOTHING = frozenset(
    {"trace", "rank", "memory", "mem", "snapshot", "cuda", "profile", "prof", "output", "run", "nsys", "ncu", "raw"}
)
"""Words that don't distinguish runs."""


class _Unit(Struct):
    """Files that belong together, of at most one tool each until units are joined."""

    candidates: list[Candidate]
    place: int
    """Where the first of them stood among all: the newest come first."""
    tools: set[str] = field(default_factory=set)

    @property
    def first(self) -> Candidate:
        return self.candidates[0]


def group(candidates: Sequence[Candidate], kernels_of: Callable[[Candidate], frozenset[str]]) -> list[list[Candidate]]:
    """The runs among the files of a folder: those with a time line first, then in the order of each one's first file.

    Args:
        candidates: the files, the newest first.
        kernels_of: the keys of a file's kernels (`kernel_key.key`); empty where they can't be told. Called once for
            each file that may share a run with one of another tool, and never where all are of one tool.

    Two files of one tool are never one run, unless they are ranks of one world. Of several that match a file of
    another tool, it goes to one of its own folder, then to the one that matches best, then to the one whose name is
    nearest, then to the newest.
    """
    units = _over_nodes(_worlds([c for c in candidates if _tool(c) not in WITHOUT_KERNELS], candidates))
    if len({tool for unit in units for tool in unit.tools}) > 1:
        units = _joined(units, kernels_of)
    without = _worlds([c for c in candidates if _tool(c) in WITHOUT_KERNELS], candidates)
    for snapshot in sorted(without, key=lambda unit: unit.tools <= WITHOUT_TIME_LINE):
        home = _home(snapshot, units)
        if home is None:
            units.append(snapshot)
        else:
            home.candidates += snapshot.candidates
            home.tools |= snapshot.tools
            home.place = min(home.place, snapshot.place)
    return [unit.candidates for unit in sorted(units, key=lambda unit: (unit.tools <= WITHOUT_TIME_LINE, unit.place))]


def _tool(candidate: Candidate) -> str:
    """The tool that a file is of; what rocprof counted of kernels goes with its time line, as ncu's with nsys's."""
    only_counted = candidate.kind == "rocprof" and candidate.path.name.endswith(BY_KIND["rocprof"].parts[-1])
    return "ncu" if only_counted else tool_of(candidate.kind)


def _worlds(chosen: Iterable[Candidate], every: Sequence[Candidate]) -> list[_Unit]:
    """Files as units: ranks of one world that one tool wrote into one folder, or one each, until a rank repeats.

    Files that are called alike but for the rank are of one unit before others are: of two jobs in a folder, one may
    lack a rank that the other has.
    """
    places = {id(candidate): place for place, candidate in enumerate(every)}
    chosen = list(chosen)
    sizes: dict[tuple[object, ...], set[int]] = {}
    for candidate in chosen:
        if candidate.rank is not None and candidate.world_size:
            sizes.setdefault(_kin(candidate), set()).add(candidate.world_size)
    families: dict[tuple[tuple[object, ...], str, int], list[Candidate]] = {}
    for candidate in chosen:
        number = 0
        world: tuple[object, ...] = (candidate.path,)
        if candidate.rank is not None and candidate.world_size != 1:
            # a file that says nothing, as an empty one, is of the world of those that are called like it
            told = sizes.get(_kin(candidate), set())
            size = candidate.world_size or (next(iter(told)) if len(told) == 1 else candidate.family)
            world = (candidate.beside, _tool(candidate), size)
        while any(other.rank == candidate.rank for other in families.get((world, candidate.family, number), ())):
            number += 1
        families.setdefault((world, candidate.family, number), []).append(candidate)
    worlds: dict[object, list[tuple[_Unit, set[int | None]]]] = {}
    by_size = sorted(families.items(), key=lambda item: (len(item[1]) == 1, places[id(item[1][0])]))
    for (world, _, _), family in by_size:
        ranks = {candidate.rank for candidate in family}
        home = next((found for found in worlds.get(world, ()) if not found[1] & ranks), None)
        if home is None:
            home = _Unit([], places[id(family[0])], {_tool(family[0])}), set()
            worlds.setdefault(world, []).append(home)
        home[0].candidates += family
        home[1].update(ranks)
    for found in worlds.values():
        for unit, _ in found:
            unit.candidates.sort(key=lambda candidate: places[id(candidate)])
            unit.place = places[id(unit.first)]
            # a rank's second recording comes after the job that it is of
            unit.place = max(unit.place, found[0][0].place) if len(unit.candidates) == 1 else unit.place
    return sorted((unit for found in worlds.values() for unit, _ in found), key=lambda unit: unit.place)


def _kin(candidate: Candidate) -> tuple[object, ...]:
    """The same for files of one folder, tool and way of naming."""
    return candidate.beside, _tool(candidate), candidate.family


def _over_nodes(units: list[_Unit]) -> list[_Unit]:
    """Joins the ranks of one world that lie in a folder per node: ``node0/rank0``, ``node1/rank8``.

    The folders differ in one name of their paths, and no rank is in two of them: folders of several runs each have a
    rank 0.
    """
    for level in (lambda unit: None, lambda unit: unit.first.path.parent.parent):
        worlds: dict[tuple[object, ...], list[_Unit]] = {}
        for unit in units:
            if unit.first.rank is not None and (unit.first.world_size or 0) > 1:
                worlds.setdefault((_tool(unit.first), unit.first.world_size, level(unit)), []).append(unit)
        for together in worlds.values():
            ranks = [candidate.rank for unit in together for candidate in unit.candidates]
            if len(together) > 1 and len(set(ranks)) == len(ranks) and _differ_in_one_name(together):
                home, *guests = sorted(together, key=lambda unit: unit.place)
                home.candidates += [candidate for guest in guests for candidate in guest.candidates]
                units = [unit for unit in units if all(unit is not guest for guest in guests)]
    return units


def _differ_in_one_name(units: Sequence[_Unit]) -> bool:
    """Whether the folders of these units have the same path but for one folder's name."""
    paths = [unit.first.path.parent.parts for unit in units]
    same_depth = len({len(parts) for parts in paths}) == 1
    return same_depth and sum(len(set(names)) > 1 for names in zip(*paths, strict=True)) == 1


def _joined(units: list[_Unit], kernels_of: Callable[[Candidate], frozenset[str]]) -> list[_Unit]:
    """Units of different tools joined where their kernels match: those of one folder, then the best matches first."""
    kernels = {id(unit): kernels_of(unit.first) for unit in units}
    pairs: list[tuple[bool, float, float, int, _Unit, _Unit]] = []
    for left, right in combinations(units, 2):
        if left.tools == right.tools:
            continue
        shared = _shared(kernels[id(left)], kernels[id(right)])
        if shared >= LEAST_SHARED:
            apart = left.first.path.parent != right.first.path.parent
            likeness = _likeness(left.first, right.first)
            pairs.append((apart, -shared, -likeness, left.place + right.place, left, right))
    run_of = {id(unit): unit for unit in units}
    for *_, left, right in sorted(pairs, key=lambda pair: pair[:4]):
        home, guest = sorted((run_of[id(left)], run_of[id(right)]), key=lambda unit: unit.place)
        if home.tools & guest.tools:
            continue
        home.candidates += guest.candidates
        home.tools |= guest.tools
        run_of.update({name: home for name, unit in run_of.items() if unit is guest})
    return list({id(unit): unit for unit in run_of.values()}.values())


def _shared(left: frozenset[str], right: frozenset[str]) -> float:
    """Share of the kernels of the file with fewer that the other has too.

    Where one of them gives the functions' bare names only (``ncu --kernel-name-base function``), those are compared.
    """
    if any("<" in key for key in left) != any("<" in key for key in right):
        left, right = frozenset(map(_bare, left)), frozenset(map(_bare, right))
    fewer = min(len(left), len(right))
    return len(left & right) / fewer if fewer else 0.0


def _bare(key: str) -> str:
    """A function's own name out of its key: ``run`` of ``Agent<f::g>::run<3>``."""
    depth, begin, end = 0, 0, None
    for place, letter in enumerate(key):
        if letter in "<({[":
            end = place if not depth and end is None else end
            depth += 1
        elif letter in ">)}]":
            depth -= 1
        elif letter == ":" and not depth:
            begin, end = place + 1, None
    return key[begin:end]


def _home(snapshot: _Unit, units: list[_Unit]) -> _Unit | None:
    """The run that a file without kernels belongs to: the only one of its folder, else that with the nearest name."""
    recorded = [unit for unit in units if not unit.tools <= WITHOUT_KERNELS & WITHOUT_TIME_LINE]
    folder = snapshot.first.path.parent
    beside = [unit for unit in recorded if any(c.path.parent == folder for c in unit.candidates)] or recorded
    if len(beside) == 1:
        return None if snapshot.tools & beside[0].tools else beside[0]
    words = _words(snapshot.first)
    named = [
        (max(_likeness(snapshot.first, c) for c in unit.candidates), -unit.place, unit)
        for unit in beside
        if not snapshot.tools & unit.tools and any(words & _words(c) for c in unit.candidates)
    ]
    return max(named, key=lambda entry: entry[:2])[2] if named else None


def _stem(candidate: Candidate) -> str:
    return _SUFFIXES.sub("", candidate.path.name.lower())


def _words(candidate: Candidate) -> set[str]:
    return set(_WORD.findall(_stem(candidate))) - _SAYS_NOTHING


def _likeness(left: Candidate, right: Candidate) -> float:
    """How similar two names are, 0 to 1."""
    return SequenceMatcher(None, _stem(left), _stem(right), autojunk=False).ratio()


def _by_folder(found: Sequence[Candidate]) -> list[Candidate]:
    """The files, those in folders ``rich`` and ``light`` of one job marked as these recordings of their ranks.

    Nothing is marked where only one of the two folders is there, or files say themselves what they are.
    """
    ranks: dict[tuple[Path, str], set[tuple[int | None, int | None]]] = {}
    for file in found:
        ranks.setdefault((file.path.parent.parent, file.path.parent.name), set()).add((file.rank, file.world_size))

    def marked(file: Candidate) -> Candidate:
        job, name = file.path.parent.parent, file.path.parent.name
        other = LIGHT if name == RICH else RICH
        if name not in (LIGHT, RICH) or file.run_id or file.recorded_pass or file.rank is None:
            return file
        if file.kind != "chrome" or (file.rank, file.world_size) not in ranks.get((job, other), ()):
            return file
        return replace(file, recorded_pass=name, of_folder=job)

    return [marked(file) for file in found]


def set_aside(found: Iterable[Candidate]) -> tuple[list[Candidate], dict[Path, Candidate]]:
    """The files that stand for themselves, and of those that don't, the light recording of each rich one's path.

    A light recording belongs to the rich one of the same run in the same folder, or to that of the same rank in the
    folder ``rich`` beside its own; without one it stands for itself.
    """
    files = _by_folder(list(found))
    rich = {
        _recording_of(file): file.path
        for file in reversed(files)
        if file.recorded_pass == RICH and (file.of_folder or file.run_id)
    }
    lights: dict[Path, Candidate] = {}
    for file in files:
        if file.recorded_pass == LIGHT and _recording_of(file) in rich:
            lights.setdefault(rich[_recording_of(file)], file)
    aside = {file.path for file in lights.values()}
    return [file for file in files if file.path not in aside], lights


CAPTURE, REPLAY = b"StreamBeginCapture", b"GraphLaunch"
"""Calls that tell a recording of the capture of graphs from one of their replays."""
FEW, SMALL = 4, 8 << 20
"""Of so many recordings those of at most so many bytes are looked through for captures, else those whose path says so:
to look through a large file takes a good part of the time of reading it."""


def with_captures(files: list[Candidate]) -> list[Candidate]:
    """The files that stand for themselves: a recording of the capture of graphs belongs to those of their replays.

    It belongs to the recordings of its rank in its own folder or in one around it, else in one beside that.
    """
    loose = [file for file in files if file.kind == "chrome"]
    ranks = [file.rank for file in loose]
    # ranks that are all different are one job's, and each has no other recording
    loose = [] if None not in ranks and len(set(ranks)) == len(ranks) else loose
    captured = [file for file in loose if _may_be_capture(file, len(loose)) and mentions(file.path, CAPTURE)]
    others = [file for file in loose if file not in captured]
    homes: dict[Path, list[Candidate]] = {}
    replaying: dict[Path, bool] = {}
    aside: set[Path] = set()
    for capture in captured:
        others_of_run = [file for file in others if file.run_id == capture.run_id]
        of_rank = [file for file in others_of_run if None in (file.rank, capture.rank) or file.rank == capture.rank]
        near = [file for file in of_rank if capture.path.is_relative_to(file.path.parent)]
        near = near or [file for file in of_rank if file.path.parent.parent == capture.path.parent.parent]
        for file in near:
            if file.path not in replaying:
                # one that tells its pass is of this run, even where no recorded step replays
                replaying[file.path] = capture.recorded_pass == CAPTURE_PASS or mentions(file.path, REPLAY)
            if replaying[file.path]:
                homes.setdefault(file.path, []).append(capture)
                aside.add(capture.path)
    kept = (file for file in files if file.path not in aside)
    return [replace(file, captures=tuple(homes.get(file.path, ()))) for file in kept]


def _may_be_capture(file: Candidate, files: int) -> bool:
    if file.run_id:
        return file.recorded_pass == CAPTURE_PASS
    named = "captur" in "/".join(file.path.parts[-2:]).lower()
    return files > 1 and (named or (files <= FEW and file.path.stat().st_size <= SMALL))


def _recording_of(file: Candidate) -> tuple[Path, str | None, int | None]:
    return file.of_folder or file.path.parent, file.run_id, file.rank


def light_beside(files: Sequence[Candidate], manifest: RunManifest | None) -> Candidate | None:
    """The light recording that run.json names, of a run of which only some files were given; None where it has none."""
    if manifest is None:
        return None
    for recorded in manifest.measurement.passes:
        name = recorded.file or ""
        path = files[0].path.parent / name
        if recorded.name != LIGHT or not name or Path(name).name != name or not path.is_file():
            continue
        try:
            light = inspect(path)
        except TraceError:
            continue
        if set_aside([*files, light])[1] and light.path not in {file.path for file in files}:
            return light
    return None


UNFINISHED = {
    "failed": "not all of this run went well",
    "interrupted": "this run was interrupted",
    "running": "this run was under way when its run.json was last written",
}
"""The note about a run that did not end normally, by the status in its run.json."""


def unfinished(manifest: RunManifest) -> str:
    """What to say of a run that did not end normally; whether it still runs can be told on its own machine only."""
    pid, boot = manifest.identity.pid, manifest.identity.boot_id
    if manifest.status == "running" and pid is not None and boot is not None and boot == _boot_id():
        if Path(f"/proc/{pid}").exists():
            return f"this run is still under way (process {pid})"
        return "this run was cut off: tracetui was killed, or its machine failed"
    return UNFINISHED[manifest.status or ""]


def _boot_id() -> str | None:
    """What changes whenever this machine starts anew; None where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None


class Found(Struct):
    """The files of one run, before any is read."""

    files: list[Candidate]
    lights: dict[Path, Candidate]
    """The light recording of each rich one's path."""
    problems: list[TraceError]
    others: tuple[tuple[str, tuple[Path, ...]], ...] = ()
    place: int = 0


def find(
    paths: Sequence[Path | str],
    kernels_of: Callable[[Candidate], frozenset[str]],
    choose: Callable[[Sequence[str]], int] | None,
) -> Found:
    """The files of the run that is to be opened.

    Args:
        paths: as for `open_path`.
        kernels_of: the keys of a file's kernels (`group`).
        choose: as for `open_path`.

    Raises:
        TraceError: there are none.
    """
    if not paths:
        raise ValueError("open_path needs at least one path")
    first = Path(paths[0])
    problems: list[TraceError] = []
    if len(paths) == 1 and not first.is_dir():
        files = [inspect(_existing(first))]
        if choose is not None:
            choose([first.name])
        return Found(files, {}, problems)
    if len(paths) > 1:
        files, lights = set_aside(
            found for given in map(Path, paths) for found in _files_of(_existing(given), problems)
        )
        if not files:
            raise problems[0]
        return Found(with_captures(files), lights, problems)
    found_files, lights = set_aside(_found_in(first, problems))
    runs = _runs_of(with_captures(found_files), kernels_of)
    names = [_run_name(run, first) for run in runs]
    often = Counter(names)
    # jobs of one folder are told apart by their first files
    names = [
        run[0].path.name + (f" and {len(run) - 1} more" if len(run) > 1 else "") if often[name] > 1 else name
        for name, run in zip(names, runs, strict=True)
    ]
    place = choose(names) if choose is not None else 0
    found = [(name, tuple(c.path for c in run)) for name, run in zip(names, runs, strict=True)]
    own = {file.path for file in runs[place]}
    lights = {path: light for path, light in lights.items() if path in own}
    return Found(runs[place], lights, problems, (*found[:place], *found[place + 1 :]), place)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise no_such(path)
    if not path.is_dir() and not path.is_file():  # opening a pipe would wait for somebody to write to it
        raise TraceError(path, "neither a file nor a folder", "save what it gives to a file and open that")
    return path


def _files_of(path: Path, problems: list[TraceError]) -> list[Candidate]:
    """The files of one of several paths; what can't be opened among them is a problem to mention."""
    try:
        return _found_in(path, problems) if path.is_dir() else [inspect(path)]
    except TraceError as problem:
        problems.append(problem)
        return []


def _runs_of(files: list[Candidate], kernels_of: Callable[[Candidate], frozenset[str]]) -> list[list[Candidate]]:
    """The runs among the files of a folder, newest first."""
    found = sorted(_with_hosts_as_ranks(files), key=lambda c: (-c.stamp, str(c.path)))
    launched: dict[Path, list[Candidate]] = {}
    loose: list[Candidate] = []
    for candidate in found:
        beside = candidate.path.parent
        (launched.setdefault(beside, []) if (beside / run_manifest.FILE).is_file() else loose).append(candidate)
    by_launch = list(launched.items())
    if len(by_launch) > 1:  # reading a run.json takes long
        known = {folder: run_manifest.load(folder) for folder in launched}
        started = {folder: found.identity.started_unix_ns or 0 if found else 0 for folder, found in known.items()}
        by_launch.sort(key=lambda entry: (-started[entry[0]], str(entry[0])))
    launches: list[list[Candidate]] = []
    strays: list[list[Candidate]] = []
    for _, files in by_launch:
        own, others = _launched(files)
        launches.append(own)
        strays += others
    return launches + strays + group(loose, kernels_of)


def _launched(files: list[Candidate]) -> tuple[list[Candidate], list[list[Candidate]]]:
    """What a launch recorded, and what else lies in its folder: copies and other jobs, whose ranks are there twice."""
    ranked = [file for file in files if file.rank is not None and _tool(file) not in WITHOUT_KERNELS]
    tool = _tool(main_file(ranked)) if ranked else ""
    units = _worlds([file for file in ranked if _tool(file) == tool], files)
    # the one that most is there of, the newest of several
    own = max(units, key=lambda unit: len(unit.candidates), default=None)
    beside = [unit.candidates for unit in units if unit is not own]
    strays = {file.path for unit in beside for file in unit}
    return [file for file in files if file.path not in strays], beside


def _found_in(folder: Path, problems: list[TraceError]) -> list[Candidate]:
    """The files of a folder that can be opened.

    Raises:
        TraceError: there are none.
    """
    found: list[Candidate] = []
    bad: list[TraceError] = []
    for path in files_below(folder):
        if not looks_like_trace(path):
            continue
        try:
            candidate = inspect(path)
            if candidate.kind.endswith(REPORT):
                from tracetui.parsers.runs.nvidia_reports import tool_for

                tool_for(path)
            found.append(candidate)
        except TraceError as problem:
            bad.append(problem)
    if not found:
        if bad:
            raise bad[0]
        if (manifest := run_manifest.load(folder)) is not None:
            why = manifest.outcome.explanation or (
                unfinished(manifest) if manifest.status in UNFINISHED else f"its run.json says: {manifest.status}"
            )
            raise TraceError(folder, f"this run left no recording: {why}", "log.txt in it may say more")
        raise TraceError(
            folder,
            "no trace in this folder",
            f"give a folder with {EXAMPLES}",
        )
    problems.extend(bad)
    problems.extend(_doubled([candidate.path for candidate in found]))
    return found


def _doubled(paths: list[Path]) -> Iterator[TraceError]:
    """Says which file of a folder is in it more than once."""
    of_size: dict[int, list[Path]] = {}
    alike: dict[bytes, list[Path]] = {}
    with suppress(OSError):  # one that goes meanwhile is told of when it is read
        for path in paths:
            of_size.setdefault(path.stat().st_size, []).append(path)
        for size, same in of_size.items():
            for path in same if len(same) > 1 else ():
                with path.open("rb") as file:
                    ends = file.read(_ENDS) + bytes(str(size), "ascii")
                    file.seek(max(size - _ENDS, 0))
                    alike.setdefault(ends + file.read(_ENDS), []).append(path)
        for first, *others in alike.values():
            again = [path for path in others if filecmp.cmp(first, path, shallow=False)]
            if again:
                more = f", and {len(again) - 1} more too" if again[1:] else ""
                what = f"holds the same as {first.name}, byte for byte{more}"
                yield TraceError(again[0], what, "leave one of them out, unless both are meant")


def _with_hosts_as_ranks(found: list[Candidate]) -> list[Candidate]:
    """Numbers the hosts of a JAX run: their traces share a folder ``plugins/profile/<run>/`` and don't say a rank."""
    hosts: dict[Path, list[Candidate]] = {}
    for candidate in sorted(found, key=lambda c: c.path.name):
        if (
            tool_of(candidate.kind) == "chrome"
            and candidate.rank is None
            and candidate.path.parent.parent.name == "profile"
        ):
            hosts.setdefault(candidate.path.parent, []).append(candidate)
    ranks = {
        candidate.path: replace(candidate, rank=rank, world_size=len(of_run))
        for of_run in hosts.values()
        if len(of_run) > 1
        for rank, candidate in enumerate(of_run)
    }
    return [ranks.get(candidate.path, candidate) for candidate in found]


def _run_name(run: list[Candidate], below: Path) -> str:
    """What a run is called in a list of those below a folder."""
    first = run[0]
    if (first.path.parent / run_manifest.FILE).is_file():
        return first.path.parent.relative_to(below).as_posix()
    if len(run) == 1:
        return first.path.name
    if all(candidate.rank is not None for candidate in run):
        folders = {candidate.path.parent for candidate in run}
        folder = first.path.parent if len(folders) == 1 else Path(os.path.commonpath(folders))
        return f"{folder.name}: {len(run)} ranks"
    return f"{main_file(run).path.name} and {len(run) - 1} more"


def main_file(files: list[Candidate]) -> Candidate:
    """The file of the tool that sees the most of the program, the first of several."""
    return min(files, key=lambda candidate: KINDS.index(tool_of(candidate.kind)))
