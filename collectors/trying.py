"""Measures changes of an unmodified program: each is made from outside, in turns with the program as it is.

What a program reads only when it begins, and several changes together, take turns in processes; then what can be made
and taken back between two steps takes turns in one process. What gains much and may be part of the best stays on, and
the others have their turns beside it, as it may have hidden what they do. Results are of processes that began with the
change.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any

from tracetui.collectors.child.changes import BY_NAME, CHANGES, Change, workers
from tracetui.collectors.child.outside import FIRST_STEPS
from tracetui.collectors.child.turns import kind_of
from tracetui.collectors.process import Tick
from tracetui.collectors.proving import (
    Child,
    NotMeasured,
    ProveRequest,
    Timed,
    Trial,
    begun,
    figures,
    gain_of,
    program_spec,
)
from tracetui.parsers.runs.proofs import Claim
from tracetui.parsers.written import scratch

BUDGET_S = 600.0
WORTH_PERCENT = 1.0
"""Of the step: a change that gains less in its first round gets no other."""
MOST_TOGETHER = 3
"""Attempts to add one more good change to those that are together so far."""
BESIDE_PERCENT, HALF_PERCENT = 20.0, 50.0
"""From such a gain on, the others have turns beside a change; where each turn is a process, from the second on."""
ROUNDING = 3.0
"""Results may be so many times as far apart as weights that were disturbed by one rounding error make them."""
SETTLE_S, BLOCK_S, BLOCK_ROUNDS = 0.3, 1.0, 6
"""Of each turn in one process, on a GPU; from six on an interval needs no assumption (`proving.FEWEST_BY_ORDER`)."""
SHARE, MOST_SHARE = 0.5, 0.75
"""Of the time left, for one process that others must not be kept from; and when it is ended."""
WARMUP_S, TURN_S = 1.5, 2.0
"""Of each run of the program, on a GPU; what takes longest is its start."""
LEARN_WARMUP_S, LEARN_TURN_S = 0.3, 0.5
PREFETCHED = 2
"""Batches that a loader's worker makes in advance; it delivers them in rounds of all workers."""
MOST_FIRST_STEPS, MOST_TURN_S = 16, 8.0
"""However many workers a loader has."""
AS_IT_WAS: tuple[str, ...] = ()


@dataclass(frozen=True)
class TryRequest(ProveRequest):
    """What to try on a program of one's own, which `command` is."""

    names: tuple[str, ...] = ()
    """The changes to try; empty for all that fit."""
    join: tuple[str, ...] = ()
    """Changes that may become part of the best although they compute something else."""
    claims: dict[str, tuple[Claim, ...]] = field(default_factory=dict)
    """By change: the findings of the run that advise it."""
    budget_s: float = BUDGET_S
    own_folders: bool = False
    """Whether each run of the program works in an empty folder of its own."""


@dataclass
class Row:
    """The program with some changes: none, one, or several together."""

    names: tuple[str, ...]
    beside: tuple[str, ...] = ()
    """What was changed in both turns of a round."""
    turns: list[tuple[Turn, Turn]] = field(default_factory=list)
    """As it was in a round (but for what is beside), and changed."""
    switched: bool = False
    """Whether both took their turns in one process."""
    began: list[Turn] = field(default_factory=list)
    """Runs of the first steps that tell its results; where there are none, each turn that is a process does."""
    problem: str | None = None
    """Why it could not be measured."""

    @property
    def left_percent(self) -> float:
        """Of the step as it was: the mean of the rounds so far; infinity if it was not measured."""
        before, after = (sum(turn[place].step_ns for turn in self.turns) for place in (0, 1))
        return 100 * after / before if self.turns else math.inf

    @property
    def gain_percent(self) -> float:
        """How much less that is."""
        return 100 - self.left_percent

    @property
    def changes(self) -> list[Change]:
        """What is changed."""
        return [BY_NAME[name] for name in self.names]

    @property
    def draws_alike(self) -> bool:
        """Whether only runs of the first steps draw the random numbers that the unchanged program draws."""
        return any(change.kind == "compile" for change in self.changes)

    @property
    def processes(self) -> list[Turn]:
        """Those that began with the changes."""
        return self.began or [after for _, after in self.turns if after.names == self.names]


@dataclass(frozen=True)
class Turn:
    """One run of the program, or a stretch of one."""

    steps: list[int]
    """Empty where it ended after its first steps."""
    host: list[int]
    results: dict[str, Any]
    memory: int | None
    facts: dict[str, Any]
    names: tuple[str, ...] = AS_IT_WAS
    """The changes that its process began with."""

    @property
    def step_ns(self) -> float:
        """The mean step."""
        return statistics.fmean(self.steps)


@dataclass
class Switched:
    """What one process with turns told."""

    turns: dict[tuple[tuple[str, ...], tuple[str, ...]], list[tuple[Turn, Turn]]] = field(default_factory=dict)
    """Of changes, one or those that gained, and what they were beside: as it was just before and after, and changed;
    without steps where there was nothing to change."""
    why: str | None = None
    """What it failed with."""
    failed_with: str | None = None
    """The change that was on then and has had no turn."""
    out_of_time: bool = False
    interrupted: KeyboardInterrupt | None = None
    """To be raised again once what was measured until then is kept."""


class Stopped(Exception):  # noqa: N818  an end, not an error
    """The time is used up."""


class Trying:
    """Runs the program again and again; what is known so far can be asked at any moment."""

    def __init__(
        self,
        request: TryRequest,
        tell: Callable[[Tick], None],
        say: Callable[[str], None],
        keep: Callable[[dict[str, Any]], None] = lambda _: None,
    ) -> None:
        """Begins the budget's time.

        Args:
            request: what to try.
            tell: told how far it has come.
            say: told what a person should know.
            keep: given each proof as soon as there is one.
        """
        self._request, self._tell, self._say, self._keep = request, tell, say, keep
        self._until = time.monotonic() + request.budget_s
        self._took: dict[tuple[str, ...], float] = {}
        """How long a run with these changes took, start included."""
        self._most_warmup: int | None = None
        self._first_steps, self._warmup_s, self._turn_s = FIRST_STEPS, WARMUP_S, TURN_S
        self._settle_s, self._block_s = SETTLE_S, BLOCK_S
        self._about: dict[str, Any] = {}
        self._place = ""
        """How far it has come, before what is running now."""
        self.facts: dict[str, Any] = {}
        """What the first steps told of the program (`child.outside.Outside`)."""
        self.rows: list[Row] = []
        self.together: Row | None = None
        self.switched_together: Row | None = None
        """What was put together in one process, also where `together` has become more."""
        self.not_joined: list[Change] = []
        """What was to be put together when the time was used up."""
        self._chain = AS_IT_WAS
        """What stayed on while others had their turns, the largest gain first."""
        self.untried: list[str] = []
        """Changes that fit and were not tried, as the time was used up."""
        self.originals: list[Turn] = []
        """Processes of the program as it is; the first of them tells what its results are."""
        self._as_it_was: list[list[Turn]] = []
        """Of each stretch of a process in which the same changes stay on: its turns with no other."""
        self._shaken: Turn | None = None

    def run(self) -> None:
        """Does it all, as far as the time allows.

        Raises:
            NotMeasured: the program can't be timed as it is.
            ProfileError: nothing can be started.
            KeyboardInterrupt: it was stopped; what was measured stays.
        """
        self._say(
            f"the program runs again and again, for at most {self._request.budget_s / 60:.3g} min (--budget), and"
            " writes each time what it writes"
        )
        learned = self._turn(AS_IT_WAS, learns=True)
        self.facts = learned.facts
        self._reckon(learned.step_ns / 1e9)
        chosen = self.chosen()
        titles = ", ".join(change.title for change in chosen)
        self._say(f"{len(chosen)} changes fit: {titles}" if chosen else "no change fits")
        self.rows = [Row((change.name,)) for change in chosen]
        self.untried = [change.name for change in chosen]
        try:
            self._first_round([row for row in self.rows if not self._can_switch(row.changes[0])])
            self._switch_all(self._start_with())
            self._first_round([row for row in self.rows if not row.turns and row.problem is None])
            good = [row for row in self.rows if row.gain_percent >= WORTH_PERCENT and not row.beside]
            every = good if self.together is None else [self.together, *good]
            self._look_at_results([row for row in every if all(change.keeps for change in row.changes)])
            if not any(map(self._is_sure, good)):
                self._round(good, reserved=MOST_TOGETHER)
            self._shake()
            self._put_together()
            self._look_at_results(good)
            for _ in range(self._rounds - 1):  # the best of all has had one by then
                self._round([*good, *([self.together] if self.together is not None else [])])
        except Stopped:
            self._say("the time is used up (--budget)")

    def _reckon(self, step_s: float) -> None:
        """Sets how long runs are: batches of a loader come in rounds of its workers, each of which draws its own."""
        loaders = [loader["workers"] for loader in self.facts["loaders"]]
        if loaders:
            self._first_steps = min(max(FIRST_STEPS, max(loaders) + 1), MOST_FIRST_STEPS)
        most = max(*loaders, workers()) if loaders else 0
        self._warmup_s, self._turn_s = (_in_rounds(s, most * step_s) for s in (WARMUP_S, TURN_S))
        self._settle_s, self._block_s = (_in_rounds(s, max(loaders, default=0) * step_s) for s in (SETTLE_S, BLOCK_S))

    def chosen(self) -> list[Change]:
        """The changes to try: those that were asked for, or that fit; those that findings advise come first."""
        wanted = self._request.names
        found = [change for change in CHANGES if (change.name in wanted if wanted else change.fits(self.facts))]
        largest = {
            name: max((claim.bound_ns or 0.0 for claim in claims), default=0.0)
            for name, claims in self._request.claims.items()
        }
        return sorted(found, key=lambda change: -largest.get(change.name, 0.0))

    @property
    def _rounds(self) -> int:
        return self._request.processes_rounds

    # --- in one process

    def _can_switch(self, change: Change) -> bool:
        # where a module's calls are the steps, what follows them would be compiled too
        return not change.restarts and (change.kind != "compile" or bool(self.facts["optimizers"]))

    def _start_with(self) -> tuple[str, ...]:
        """The change that the process with turns begins with: what gains much, and may hide what the others do."""
        rows = [row for row in self.rows if row.gain_percent >= BESIDE_PERCENT and self._keeps(row)]
        return max(rows, key=lambda row: row.gain_percent).names if rows else AS_IT_WAS

    def _switch_all(self, base: tuple[str, ...]) -> None:
        rows = [row for row in self.rows if self._can_switch(row.changes[0])]
        half = time.monotonic() + (self._until - time.monotonic()) * SHARE
        self._place = "in one process: "
        self._chain = base
        if any(BY_NAME[name].redraws for name in base):  # it has more workers
            round_s = workers() * self._row(base[0]).turns[-1][1].step_ns / 1e9
            self._settle_s, self._block_s = (_in_rounds(s, round_s) for s in (SETTLE_S, BLOCK_S))
        while rows and time.monotonic() < half:
            told = self._switch([row.names[0] for row in rows], base)
            for (beside, names), turns in told.turns.items():
                if len(names) == 1:
                    self._take_turns(*names, beside, turns, first=beside == base)
                else:
                    self._take_together(names, base, turns)
            if told.interrupted is not None:
                raise told.interrupted
            if told.failed_with is not None and told.out_of_time:  # it would take as long in a process of its own
                self._row(told.failed_with).problem = told.why
                self.untried.remove(told.failed_with)
            left = [row for row in rows if not row.turns and row.problem is None and row.names[0] != told.failed_with]
            if len(left) == len(rows):
                break  # what can't be switched has its turns in processes
            rows = left

    def _take_turns(self, name: str, beside: tuple[str, ...], turns: list[tuple[Turn, Turn]], *, first: bool) -> None:
        """Keeps what a change gained in one process; `first` where it has had no turn beside less."""
        row = self._row(name)
        if first:
            self.untried.remove(name)
        else:
            self._chain = max(self._chain, beside, key=len)
            self.rows.append(row := Row((name,)))
        row.beside, row.switched = beside, True
        row.turns = [(before, after) for before, after in turns if after.steps]
        if row.turns:
            self._keep(self._whole_proof(row))
        elif first:
            row.problem = f"there was nothing to change ({row.changes[0].title})"

    def _take_together(self, names: tuple[str, ...], base: tuple[str, ...], turns: list[tuple[Turn, Turn]]) -> None:
        """Keeps what all that gained in one process did at once."""
        row = _of_all(*base, *names)
        if base:  # nothing in that process was as the program is
            turns = [(self.originals[-1], after) for _, after in turns]
        row.switched = not base
        row.turns = [(before, after) for before, after in turns if after.steps and before.steps]
        if row.turns:
            self.together = self.switched_together = row
            self._keep(self._whole_proof(row))

    def _row(self, name: str) -> Row:
        return next(row for row in self.rows if row.names == (name,))

    def _switch(self, names: list[str], base: tuple[str, ...]) -> Switched:
        """Turns of each change in one process that began with `base`."""
        left = self._until - time.monotonic()
        seconds = SHARE * left - self._took[base]  # of which its start takes some
        if seconds <= 0:
            return Switched()
        child = Child(self._limited(base, MOST_SHARE), Trial(f"{self._place}{len(names)} changes"), self._tell)
        told = Switched()
        try:
            self._run(child, partial(self._spec, names=base, switched=tuple(names), seconds=seconds))
        except NotMeasured as problem:
            told.why, told.out_of_time = str(problem), problem.out_of_time
        except KeyboardInterrupt as stop:
            told.interrupted = stop
        turns = (child.result.get("measurement") or {}).get("turns")
        if turns is None:
            return told
        self._about.update(child.about)
        results, facts = (child.result["outside"][name] for name in ("results", "facts"))
        blocks = [
            Turn(block["step_ns"], block["host_ns"], results, block["memory_bytes"], facts, base)
            for block in turns["blocks"]
        ]
        for number, block in enumerate(turns["blocks"]):
            if block["names"]:
                beside = [blocks[at] for at in (number - 1, number + 1) if at < len(blocks)]
                steps, host = (list(chain(*(getattr(turn, name) for turn in beside))) for name in ("steps", "host"))
                before = replace(beside[0], steps=steps, host=host)
                key = (*base, *block["beside"]), tuple(block["names"])
                told.turns.setdefault(key, []).append((before, blocks[number]))
        if told.why and all(turns["switched"] not in names for _, names in told.turns):
            told.failed_with = turns["switched"]
        if base == AS_IT_WAS:
            self.originals.append(Turn([], [], results, None, facts))
        for _, stretch in groupby(zip(turns["blocks"], blocks, strict=True), key=lambda both: both[0]["beside"]):
            self._as_it_was.append([turn for block, turn in stretch if not block["names"]])
        return told

    def _look_at_results(self, rows: list[Row]) -> None:
        """Runs the first steps with each change of one process that gained something, what is sure and most first."""
        self._place = "results: "
        for row in sorted(rows, key=lambda row: (not self._is_sure(row), -row.gain_percent)):
            self._see_results(row)
            if len(self.originals) < 2:
                with contextlib.suppress(NotMeasured):
                    self.originals.append(self._turn(AS_IT_WAS, ends=True))
            self._shake()

    def _see_results(self, row: Row) -> None:
        """Runs the first steps with a row's changes, where no process has told its results or it drew other numbers."""
        redrawn = row.draws_alike and self.results_of(row)["alike"] == "differ"
        if (redrawn or not row.processes) and not row.began:
            with contextlib.suppress(NotMeasured):
                row.began.append(self._turn(row.names, ends=True))

    # --- in processes

    def _first_round(self, rows: list[Row]) -> None:
        if not rows:
            return
        before = self._original()
        half = time.monotonic() + (self._until - time.monotonic()) * SHARE
        for number, row in enumerate(rows, 1):
            if time.monotonic() > half:  # the rest is for more rounds of those that gain
                break
            self._place = f"{number} of {len(rows)}, "
            self._pair(row, before)
            self.untried.remove(row.names[0])
        if any(row.turns for row in rows):
            again = self._original()  # to see what two of them differ by, and for what became slower meanwhile
            both = replace(before, steps=before.steps + again.steps, host=before.host + again.host)
            for row in rows:
                row.turns = [(both, after) for _, after in row.turns]
            self._shake()

    def _round(self, rows: list[Row], reserved: int = 0) -> None:
        """Measures these once more, as far as the time allows that `reserved` further runs do not need."""
        rows = [row for row in rows if row.problem is None and not row.switched and len(row.turns) < self._rounds]
        rows = self._affordable(rows, reserved)
        if not rows:
            return
        number = 1 + max(len(row.turns) for row in rows)
        self._place = f"round {number} of {self._rounds}, "
        before = self._original() if number % 2 else None
        turns = [(row, self._attempt(row)) for row in rows]
        before = before or self._original()
        for row, after in turns:
            if after is not None:
                row.turns.append((before, after))

    def _affordable(self, rows: list[Row], reserved: int) -> list[Row]:
        """Those of a round that end in time: the most gainful first, of those that may become part of the best."""
        usual = self._took[AS_IT_WAS]
        room = self._until - time.monotonic() - (1 + reserved) * usual
        chosen = []
        for row in sorted(rows, key=lambda row: (not self._may_join(row), -row.gain_percent)):
            if self._took[row.names] <= room:
                chosen.append(row)
                room -= self._took[row.names]
        if rows and not chosen and not reserved:
            raise Stopped
        return chosen

    def _put_together(self) -> None:
        """Adds changes to the best, as long as they make the step shorter."""
        rows = sorted(
            (row for row in self.rows if not row.beside and self._keeps(row)), key=lambda row: -row.gain_percent
        )
        good = [row for row in rows if self._is_sure(row)]
        if not good:
            return
        best, attempts = good[0], set()
        if self.together is not None:
            attempts.add(self.together.names)
            if self._keeps(self.together):
                best = self.together
            elif self.results_of(self.together)["alike"] == "differ":
                self.together = self.switched_together = None
        for names in self._candidates(best, good):
            added = [name for name in names if name not in best.names]
            more = _of_all(*best.names, *added)
            if not added or _kinds(added) & _kinds(best.names) or more.names in attempts:
                continue
            attempts.add(more.names)
            self._place = "together, "
            self.not_joined = more.changes
            timed = [turn for turn in self.originals if turn.steps]
            self._pair(more, timed[-1] if timed else self._original())
            self._see_results(more)
            self.not_joined = []
            if more.left_percent < best.left_percent * (1 - WORTH_PERCENT / 100) and self._keeps(more):
                best = self.together = more

    def _candidates(self, best: Row, good: list[Row]) -> Iterator[tuple[str, ...]]:
        """What may be added to the best change, the most promising first.

        All that stayed on and was sure to gain beside it, at once; then each of these, the other good ones, and where
        the step became half as long what gained nothing by itself.
        """
        if self._chain[:1] == best.names:
            found = [row for row in self.rows if row.beside == self._chain and row.gain_percent >= WORTH_PERCENT]
            beside = sorted(filter(self._may_join, found), key=lambda row: -row.gain_percent)
            every = list(self._chain)
            for row in filter(self._is_sure, beside):
                if not _kinds(every) & _kinds(row.names):
                    every += row.names
            yield tuple(every)
            yield self._chain
            yield from (row.names for row in beside)
        others = [row.names for row in good[1:] if not _kinds(row.names) & _kinds(best.names)]
        yield from others[:MOST_TOGETHER]
        if best.gain_percent >= HALF_PERCENT:
            hidden = [row for row in self.rows if row not in good and not row.switched and row.problem is None]
            yield from (row.names for row in hidden if self._keeps(row))

    def _is_sure(self, row: Row) -> bool:
        return (self.figures_of(row).get("low_ns") or 0.0) > 0 and row.gain_percent >= WORTH_PERCENT

    def _keeps(self, row: Row) -> bool:
        """Whether results stay, or what changes them was asked to join."""
        if not self._may_join(row):
            return False
        if any(name in self._request.join for name in row.names):
            return True
        redraws = next((change.name for change in row.changes if change.redraws), None)
        alone = None if redraws is None else self._row(redraws)
        if row is alone:  # its results must differ where samples are augmented at random
            return True
        against = alone.processes[0].results if alone is not None and alone.processes else None
        return self.results_of(row, against)["alike"] in ("same", "rounding")

    def _may_join(self, row: Row) -> bool:
        return all(change.keeps or change.name in self._request.join for change in row.changes)

    # --- one run of the program

    def _original(self) -> Turn:
        try:
            self.originals.append(self._turn(AS_IT_WAS))
        except NotMeasured as problem:
            if not self.originals:
                raise
            self._say(f"as it was: {problem}")
            raise Stopped from None  # what was measured until then stays
        return self.originals[-1]

    def _pair(self, row: Row, before: Turn) -> None:
        if (after := self._attempt(row)) is not None:
            row.turns.append((before, after))
            self._keep(self._whole_proof(row))

    def _attempt(self, row: Row) -> Turn | None:
        try:
            return self._turn(row.names)
        except NotMeasured as problem:
            row.problem = str(problem)
            return None

    def _shake(self) -> None:
        """Runs the first steps with disturbed weights, where it takes that to judge whether results stay."""
        if self._shaken is not None:
            return
        every = [*self.originals[1:], *(after for row in self.rows for after in row.processes)]
        if all(self._distance(turn) in (None, (0.0, 0.0)) for turn in every) or not self.facts["modules"]:
            return
        try:
            self._shaken = self._turn(AS_IT_WAS, shake=self.facts["epsilon"], ends=True)
        except NotMeasured as problem:
            self._say(f"what rounding does to the results is not known: {problem}")

    def _turn(self, names: tuple[str, ...], *, learns: bool = False, shake: float = 0.0, ends: bool = False) -> Turn:
        """Runs the program with some changes until it has been timed for long enough, or only its first steps."""
        begun = time.monotonic()
        if self._took:
            unseen = self._took[AS_IT_WAS] if ends else max(self._took.values())
            if begun + self._took.get(names, unseen) > self._until:
                raise Stopped
        what = ", ".join(BY_NAME[name].title for name in names) or ("first steps" if learns or ends else "as it was")
        label = f"{self._place}{what}"
        make = partial(self._spec, names=names, learns=learns, shake=shake, ends=ends)
        child = Child(self._limited(names), Trial(label), self._tell)
        try:
            result = self._run(child, make)
        except NotMeasured:
            calls = (child.result.get("measurement") or {}).get("calls")
            if not calls or self._most_warmup is not None or ends:
                raise
            self._most_warmup = calls // 2  # it ended in its warm-up
            result = self._run(child, make)
        if not ends:  # that is shorter
            self._took[names] = time.monotonic() - begun
        self._about.update(child.about)
        outside, measured = result["outside"], result["measurement"]
        missed = [BY_NAME[name].title for name in names if not outside["did"].get(name)]
        if missed:
            raise NotMeasured(f"there was nothing to change ({', '.join(missed)})")
        samples = math.prod(BY_NAME[name].samples for name in names)
        steps, host = ([ns / samples for ns in measured[f"clean_{what}_ns"]] for what in ("step", "host"))
        if not steps and not ends:
            raise NotMeasured("no step was timed")
        return Turn(steps, host, outside["results"], outside["memory_bytes"], outside["facts"], names)

    def _limited(self, names: tuple[str, ...], share: float = SHARE) -> ProveRequest:
        """The request, so that no run takes more than a share of the time that is left: some are compiled for ever."""
        left = max(self._until - time.monotonic(), 0.0)
        usual = 2 * max(self._took.get(AS_IT_WAS, 0.0), self._took.get(names, 0.0))
        limit = max(left * share, min(usual, left))
        if self._request.timeout_s is not None and self._request.timeout_s <= limit:
            return self._request
        return replace(self._request, timeout_s=limit, limited_by="--budget")

    def _run(self, child: Child, make: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
        if not self._request.own_folders:
            return child.run(make)
        with scratch() as folder:
            return child.run(make, cwd=folder)

    def _spec(
        self,
        folder: Path,
        *,
        names: tuple[str, ...],
        learns: bool = False,
        shake: float = 0.0,
        ends: bool = False,
        switched: tuple[str, ...] = (),
        seconds: float = 0.0,
    ) -> dict[str, Any]:
        command = self._request.command
        if self._request.own_folders:  # it is found from there too
            command = tuple(str(Path(word).absolute()) if Path(word).is_file() else word for word in command)
        spec = program_spec(self._request, folder, command)
        return {
            **spec,
            "warmup_s": LEARN_WARMUP_S if learns else self._warmup_s,
            "block_s": LEARN_TURN_S if learns else self._turn_s,
            "most_warmup": self._most_warmup,
            "turns": {
                "rounds": self._request.rounds or BLOCK_ROUNDS,
                "worth_percent": WORTH_PERCENT,
                "beside_percent": BESIDE_PERCENT,
                "joins": [name for name in switched if self._may_join(Row((name,)))],
                "settle_s": self._settle_s,
                "block_s": self._block_s,
                "seconds": seconds,
            }
            if switched
            else None,
            "outside": {
                "changes": list(names),
                "switched": list(switched),
                "shake": shake,
                "ends": ends,
                "first_steps": self._first_steps,
            },
        }

    # --- what it says

    def figures_of(self, row: Row) -> dict[str, Any]:
        """The numbers of a row, as a proof has them; empty where it was not measured."""
        if not row.turns:
            return {}
        pairs = [
            Timed([turn[place].steps for turn in row.turns], [turn[place].host for turn in row.turns])
            for place in (0, 1)
        ]
        known = figures(*pairs, should_agree=all(change.keeps for change in row.changes))
        # of ratios: what slows processes down does so in proportion, and a step may become a small part of what it was
        before, after = ([math.log(turn[place].step_ns) for turn in row.turns] for place in (0, 1))
        gain, step = gain_of(before, after, self._variants(row.switched)), known["step_ns"]

        def saved(ratio: float | None) -> float | None:
            return None if ratio is None else -step * math.expm1(-ratio)

        return {**known, "gain_ns": saved(gain.value), "low_ns": saved(gain.low), "high_ns": saved(gain.high)}

    def _variants(self, switched: bool) -> list[list[float]]:
        """Logarithm of the mean step of each run: of the program as it is, then of each row.

        Turns in one process are nearer to each other than processes are, so either are by themselves; what changes
        slowly in a process is in both of two turns as it is that follow each other, and not what they differ by.
        """
        if switched:
            every = [list(pair) for turns in self._as_it_was for pair in pairwise(turns)]
        else:
            rows = [row for row in (*self.rows, self.together) if row is not None and not row.switched]
            as_it_was = [turn for turn in self.originals if turn.steps]
            every = [as_it_was, *([after for _, after in row.turns] for row in rows)]
        return [[math.log(turn.step_ns) for turn in turns] for turns in every]

    def results_of(self, row: Row, against: dict[str, Any] | None = None) -> dict[str, Any]:
        """How the results of a row compare with those of the unchanged program, as `proofs.Compared` has it.

        Args:
            row: the changes.
            against: results to compare with instead.
        """
        kept = self.originals[0].results if self.originals else {"what": None, "numbers": []}
        told: dict[str, Any] = {
            "what": kept["what"],
            "numbers": len(kept["numbers"]),
            "largest": None,
            "scale": max(map(abs, kept["numbers"]), default=None),
            "should_agree": all(change.keeps for change in row.changes),
            "moved_percent": None,
            "alike": "unknown",
        }
        noise = self._largest(self.originals[1:])
        found = self._largest(row.processes, against)
        if noise is None or found is None:
            return told
        if all(map(math.isfinite, found)):
            told.update(largest=found[0] * told["scale"], moved_percent=100 * found[1])
        rounding = (self._distance(self._shaken) if self._shaken is not None else None) or (0.0, 0.0)
        if any(each > ROUNDING * limit for each, limit in zip(noise, rounding, strict=True)):
            return told  # unchanged runs are too far apart to tell anything
        if all(each <= limit for each, limit in zip(found, noise, strict=True)):
            told["alike"] = "same"
        elif all(each <= ROUNDING * limit for each, limit in zip(found, rounding, strict=True)):
            told["alike"] = "rounding"
        else:
            told["alike"] = "differ"
        return told

    def _largest(self, turns: Sequence[Turn], against: dict[str, Any] | None = None) -> tuple[float, float] | None:
        found = [self._distance(turn, against) for turn in turns]
        known = [each for each in found if each is not None]
        if not known or len(known) < len(found):
            return None
        return max(losses for losses, _ in known), max(moved for _, moved in known)

    def _distance(self, turn: Turn, against: dict[str, Any] | None = None) -> tuple[float, float] | None:
        return distance(against or self.originals[0].results, turn.results)

    def apart(self) -> Row | None:
        """The change that gains most for sure, and stands apart as it computes something else."""
        asked = _kinds(self._request.join)
        rows = [row for row in self.rows if not row.beside and not self._may_join(row) and self._is_sure(row)]
        rows = [row for row in rows if not asked & _kinds(row.names)]
        return max(rows, key=lambda row: row.gain_percent, default=None)

    def proofs(self) -> list[dict[str, Any]]:
        """What was measured, as `parsers.runs.proofs.Proof` reads it: each change, then those together."""
        together = (
            [self.together] if self.switched_together is self.together else [self.switched_together, self.together]
        )
        rows = [row for row in [*self.rows, *together] if row is not None and (row.turns or row.problem)]
        return list(map(self._whole_proof, rows))

    def _whole_proof(self, row: Row) -> dict[str, Any]:
        # findings said it of the change by itself, in the program as it was
        claims = self._request.claims.get(row.names[0], ()) if len(row.names) == 1 and not row.beside else ()
        return {
            **begun(", ".join(change.title for change in row.changes), {}, self._request.command, claims),
            "one_process": row.switched,
            **self._about,
            "changes": list(row.names),
            "beside": [BY_NAME[name].title for name in row.beside],
            "write": [change.write for change in row.changes],
            "risks": [change.risk for change in row.changes if change.risk],
            "explanation": row.problem if not row.turns else None,
            **self.figures_of(row),
            "compared": self.results_of(row) if row.processes else None,
            "memory_bytes": _most(before.memory for before, _ in row.turns),
            "changed_memory_bytes": _most(after.memory for _, after in row.turns),
        }


def distance(one: dict[str, Any], other: dict[str, Any]) -> tuple[float, float] | None:
    """How far two runs' results are apart: of the losses or outputs, and of how far parameters moved.

    The first is the largest difference by the largest number, the second the length of the difference by the length
    of the movement. None where they can't be put side by side.
    """
    losses, others = one["numbers"], other["numbers"]
    if not losses or one["what"] != other["what"] or len(losses) != len(others):
        return None
    if len(one["moved"]) != len(other["moved"]) or not all(map(math.isfinite, losses)):
        return None
    if not all(map(math.isfinite, [*others, *one["moved"], *other["moved"]])):
        return math.inf, math.inf
    apart = max(abs(a - b) for a, b in zip(losses, others, strict=True))
    moved = math.dist(one["moved"], other["moved"])
    return _share(apart, max(map(abs, losses))), _share(moved, math.hypot(*one["moved"]))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else (math.inf if part else 0.0)


def _in_rounds(seconds: float, round_s: float) -> float:
    """So long that what loaders made in advance is used up, where one batch of each worker takes `round_s`."""
    return max(seconds, min(PREFETCHED * round_s, MOST_TURN_S))


def _of_all(*names: str) -> Row:
    return Row(tuple(change.name for change in CHANGES if change.name in names))


def _kinds(names: Iterable[str]) -> set[str]:
    return set(map(kind_of, names))


def _most(values: Any) -> int | None:
    return max((value for value in values if value is not None), default=None)
