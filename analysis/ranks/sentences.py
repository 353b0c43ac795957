"""What a job says of itself, in sentences: who is late in the program, who came last in the recording, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetui.analysis.base.number_format import format_bytes, format_count, format_ns, format_percent, spans
from tracetui.analysis.ranks.late import STEP_PERCENT, Late
from tracetui.analysis.ranks.work import CAUSES, Cause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.ranks.job import Job

SILENT = (
    "Silent host time: stretches of over 1 ms in which no operator or API call begins or ends, outside calls that wait."
)
SLOWED = "Recording slows many short calls: whether the program's own host is as late in them can't be told."
BOUNDED = (
    "A missing rank may have come later still: waiting is at least, transfers are at most, and bandwidths at least what"
    " is said."
)
NAMED = 3
"""So many late ranks are named, each with its reason."""


def answer(found: Sequence[Job], *, gains: bool = False) -> list[str]:
    """Both answers of a job: the program's from its rich recording, and who came last in each recording.

    Args:
        found: the jobs of a run, the rich one first.
        gains: whether a late rank's gain is said, of the job's step; a run's page has it of its own (rule S20).
    """
    if not found:
        return []
    first = found[0]
    program = in_program(first) + (gain_words(first) if gains else "")
    if first.apart:
        return [program, *caveats(first)]
    steps = step_words(first) + path_words(first) + lost_words(first)
    recordings = [in_recording(job, several=len(found) > 1) for job in found]
    lasts = [job.answers.recording for job in found]
    slowed = any(late is not None and late.untold_ns > 0.5 * late.late_ns for late in lasts)
    return [
        text
        for text in (
            strange_words(first),
            program,
            turn_words(first),
            *link_words(first),
            *once_words(first),
            *recordings,
            SLOWED if slowed else "",
            steps,
            *caveats(first),
        )
        if text
    ]


def brief(found: Sequence[Job]) -> str:
    """The answers as one short paragraph, for a page that has more to say; empty without a job."""
    if not found:
        return ""
    job = found[0]
    of = f"{format_count(job.here)} of {format_count(job.world_size)}" if job.missing else format_count(job.here)
    program = " ".join(filter(None, (strange_words(job), in_program(job, short=True))))
    if job.apart:
        return program
    if job.answers.program:  # who comes last in a recording may be another one, slowed by the profiler
        return f"Job of {of} ranks. {program}"
    lasts = []
    for one in found:
        late = one.answers.recording
        who = f"rank {late.rank} ({late.last} of {late.of})" if late is not None else "none"
        lasts.append(f"{who} in {_which(one)}" if len(found) > 1 else who)
    return f"Job of {of} ranks. {program} Last at the collectives: {', '.join(lasts)}."


def strange_words(job: Job) -> str:
    """Which recordings are of another job, or of another rank; empty where none is."""
    if not job.strange:
        return " ".join(filter(None, (copies_words(job), distant_words(job))))
    return (
        f"Of another job than the other {format_count(job.here)} recordings: {_ranks(job.strange)}, whose collectives"
        f" end when theirs can't, by any clock. All that follows is of the others.{_bounds(job)}"
    )


def copies_words(job: Job) -> str:
    """Which recordings are those of other ranks; empty where none is."""
    if not job.copies:
        return ""
    which = ", ".join(f"rank {rank}'s recording is rank {first}'s" for rank, first in [*job.copies.items()][:NAMED])
    more = f", and {format_count(len(job.copies) - NAMED)} more are others'" if len(job.copies) > NAMED else ""
    return f"{which[0].upper()}{which[1:]}{more}: its steps and collectives are the same to the nanosecond. Left out."


def distant_words(job: Job) -> str:
    """Which recordings may be of another run, since their times are others; empty where none is."""
    if not job.distant:
        return ""
    offset = job.clocks["offset_ns"]
    return (
        f"{_ranks(job.distant).capitalize()} may be of another run: recorded"
        f" {format_ns(float(offset.max() - offset.min()))} from the others, unless clocks of hosts differ so much."  # type: ignore[operator, arg-type]
    )


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {spans(ranks)}"


def _bounds(job: Job) -> str:
    return f" {BOUNDED}" if job.bounded else ""


def in_program(job: Job, *, short: bool = False) -> str:
    """Who is late in the program, and why; a short text gives what the rank has less, or too little more, in sum."""
    if job.apart:
        lost = format_count(int(job.unmatched["count"].sum()))
        return (
            f"These {format_count(job.here)} recordings are not ranks of one job: none of {lost} calls of collectives"
            " is another rank's too. Open each job's by itself."
        )
    late = job.answers.program
    if late:
        grouped = alike(late)
        said = [
            f"rank {one[0].rank} has {late_words(one[0], job)}{sum_words(one[0], short=short)}"
            if len(one) == 1
            else alike_words(one, job)
            for one in grouped[:NAMED]
        ]
        rest = sum(map(len, grouped[NAMED:]))
        more = f"; {rest} more ranks are late" if rest else ""
        return f"In the program {'; '.join(said)}{more}."
    if job.answers.largest_excess_ns is None:
        return (
            "Who is late in the program can't be told: no launches and no host events were recorded, so a rank's own "
            "work can't be told from what was queued before."
        )
    slower = job.ranks.filter(pl.col("slower") > 1).sort("slower", descending=True)
    beside = job.ranks.filter(pl.col("over_gpu_ns") > STEP_PERCENT / 100 * (job.shown_ns or np.inf))
    beyond = f" that collectives beside it can't explain{_example(beside)}" if beside.height else ""
    text = (
        f"In the program no rank{_of_those(job)} is late: none has {STEP_PERCENT:.0f} % of a step more GPU work of its"
        f" own{beyond}, or more silent host time, than the median rank."
    )
    if slower.height and not short:
        named = [f"rank {row['rank']}'s {row['slower']:.2f} times" for row in slower.head(NAMED).to_dicts()]
        text += f" Equal launches take longer on some GPUs, but nobody waits for that: {', '.join(named)} as long."
    return text


def gain_words(job: Job) -> str:
    """What a step could shrink without the one late rank, as a sentence that follows another."""
    late = job.answers.program
    most = at_the_median(late[0], job) if len(late) == 1 else None
    if most is None:
        return ""
    of = f"{format_percent(most)} of {format_ns(base_ns(late[0], job) or 0.0)} {_as(late[0], job)}"
    shorter = f"at most {format_ns(late[0].named_ns)} shorter ({of})"
    return f" At the median rank's {_of_what(late[0])} a step would be {shorter}."


def _example(beside: pl.DataFrame) -> str:
    """The rank whose launches collectives may have slowed most."""
    row = beside.sort("over_gpu_ns", descending=True).row(0, named=True)
    return f" (rank {row['rank']} has {format_ns(row['over_gpu_ns'])} more, in launches that others ran beside)"


LEAST_ALIKE = 3
"""So many ranks that are late for one reason are said together."""


def alike(late: Sequence[Late]) -> list[list[Late]]:
    """Ranks that are late for one reason together, where they are several; the latest first."""
    by_reason: dict[object, list[Late]] = {}
    for one in late:
        cause = one.cause
        reason = (one.named_by, None if cause is None else (cause.kind, cause.name, cause.step))
        by_reason.setdefault(reason, []).append(one)
    found: list[list[Late]] = []
    for ranks in by_reason.values():
        found += [ranks] if len(ranks) >= LEAST_ALIKE else [[one] for one in ranks]
    return sorted(found, key=lambda one: (-one[0].late_ns, one[0].rank))


def alike_words(late: Sequence[Late], job: Job) -> str:
    """``ranks 0-7 (all of host node0) each have 2.443 to 2.533 ms more GPU work per step than the median rank: …``."""
    ranks = sorted(one.rank for one in late)
    whose = dict(job.ranks.select("rank", "host").iter_rows())
    hosts = {whose[rank] for rank in ranks}
    whole = None not in hosts and sorted(rank for rank, host in whose.items() if host in hosts) == ranks
    where = ""
    if whole and len(hosts) < len(set(whose.values())):
        where = f", all of host{'s' if len(hosts) > 1 else ''} {', '.join(sorted(map(str, hosts)))},"
    named = sorted(one.named_ns for one in late)
    few = len(ranks) > job.here / 2
    than = f"the other {job.here - len(ranks)}" if few else "the median rank"
    middle = late[len(late) // 2]
    return (
        f"{len(ranks)} of {format_count(job.here)} ranks ({spans(ranks)}){where} each have {format_ns(named[0])} to"
        f" {format_ns(named[-1])} more {_of_what(middle)} {_per(job)} than {than}"
        f"{cause_words(middle.cause, middle) if middle.cause is not None else ''}"
    )


def turn_words(job: Job) -> str:
    """Ranks that are late in turn, none of them on average; empty where they are not."""
    turns = job.answers.turns
    if turns is None or job.step_ns is None:
        return ""
    which = spans(sorted(rank for rank, _ in turns.ranks[:MOST_SPOKEN]))
    more = f" and {len(turns.ranks) - MOST_SPOKEN} more" if len(turns.ranks) > MOST_SPOKEN else ""
    rank, ns = turns.ranks[0]
    in_steps = f", in {format_count(turns.steps)} of {format_count(job.called_steps)} steps" if job.step_count else ""
    return (
        f"Ranks are late in turn, each by more {_WHAT[turns.part]} than its peers: {format_ns(turns.lost_ns)}"
        f" {_per(job)} is lost to it ({format_percent(100 * turns.lost_ns / job.step_ns)} of"
        f" {format_ns(job.step_ns)} as recorded) by ranks {which}{more}{in_steps}; most by rank {rank},"
        f" {format_ns(ns)}."
    )


def link_words(job: Job) -> list[str]:
    """Links that are slower than their like, each in a sentence."""
    found = []
    for row in job.links.head(NAMED).iter_rows(named=True):
        pair = row["kind"] == "send"
        who = f"rank {row['ranks'][0]} to rank {row['ranks'][1]}" if pair else f"ranks {_listed(row['ranks'])}"
        speeds = ""
        if row["busbw_gbps"] and row["usual_busbw_gbps"]:
            speeds = f" ({row['busbw_gbps']:.1f} GB/s where the others have {row['usual_busbw_gbps']:.1f})"
        usual = f"where the median of {format_count(row['like'])} like it takes {format_ns(row['usual_ns'])}{speeds}"
        if row["usual_ns"] == row["most_ns"]:
            size = f"{format_bytes(row['bytes'])} over {row['link']}"
            usual = f"where {size} take {format_ns(row['least_ns'])} to {format_ns(row['most_ns'])}"
        found.append(
            f"A link is slow: {row['kind']} {'from' if pair else 'of'} {who} ({row['group']}) takes"
            f" {format_ns(row['transfer_ns'])}, {usual}: {format_ns(row['more_ns'])} more {_per(job)}."
        )
    if job.links.height > NAMED:
        found.append(f"{format_count(job.links.height - NAMED)} more links are slow.")
    return found


def _listed(ranks: Sequence[int]) -> str:
    """``0-7``; of many with gaps the first and the last."""
    text = spans(ranks)
    return text if len(text) <= MOST_LISTED else f"{ranks[0]}, {ranks[1]}, … {ranks[-1]}"


MOST_LISTED = 40


def lost_words(job: Job) -> str:
    """What the step lost along the critical path, by cause; empty where that is nothing."""
    by_cause = (
        job.lost.group_by("cause").agg(pl.col("lost_ns").sum() / job.called_steps).sort("lost_ns", descending=True)
    )
    whole = float(by_cause["lost_ns"].sum())
    if not job.step_ns or whole < STEP_PERCENT / 100 * job.step_ns:
        return ""
    told = [f"{format_ns(ns)} {_LOST[cause]}" for cause, ns in by_cause.iter_rows() if ns > 0.05 * whole]
    if job.bounded:  # a rank that is missing hides in both
        told = [f"{text} or waiting for missing ranks" if text.endswith(_HIDING) else text for text in told]
    return f" Of the recorded one {format_ns(whole)} is lost on it: {', '.join(told)}."


_LOST = {
    "gpu": "by more GPU work",
    "silent": "by silent hosts",
    "loader": "by waiting for data",
    "calls": "by hosts in many short calls",
    "other": "by lateness that nothing recorded explains",
    "transfer": "in slow transfers",
}
_HIDING = (_LOST["transfer"], _LOST["other"])
MOST_SPOKEN = 16
"""So many ranks are listed in a sentence."""


def once_words(job: Job) -> list[str]:
    """Ranks that stopped once in this recording, and not in the program's other one."""
    found = []
    for one in job.answers.once:
        assert one.cause is not None
        name = f" in {one.cause.name}" if one.cause.name else ""
        found.append(
            f"In {_which(job)} rank {one.rank} stopped once: {format_ns(one.named_ns * job.step_count)} more"
            f" {_of_what(one)} than the median rank, nearly all of it in step {one.cause.step}{name}; the other"
            " recording has nothing like it, so it need not come again."
        )
    return found


def in_title(job: Job) -> str:
    """`in_program` for a line that a narrow screen cuts: ``late in the program: rank 2, +14.32 ms GPU work …``."""
    if job.apart:
        return "not ranks of one job"
    if job.strange:
        return f"{_ranks(job.strange)} of another job; {_in_title(job)}"
    return _in_title(job)


def _in_title(job: Job) -> str:
    late = job.answers.program
    if not late:
        if job.links.height:
            row = job.links.row(0, named=True)
            return f"slow link: ranks {_listed(row['ranks'])}, +{format_ns(row['more_ns'])} {row['kind']} {_per(job)}"
        if job.answers.turns is not None:
            turns = job.answers.turns
            return (
                f"late in turn: {len(turns.ranks)} ranks, {format_ns(turns.lost_ns)} {_SHORT[turns.part]} {_per(job)}"
            )
        if job.answers.largest_excess_ns is None:
            return "late ranks unknown"
        return f"no rank{_of_those(job)} is late in the program"
    if len(late) > 1:
        more = f" and {len(late) - NAMED} more" if len(late) > NAMED else ""
        return f"late in the program: ranks {', '.join(str(one.rank) for one in late[:NAMED])}{more}"
    parts = {_SHORT[name]: ns for name, ns in late[0].parts.items()}
    what = max(parts, key=parts.__getitem__)
    cause = late[0].cause
    name = cause.name or (CAUSES[cause.kind] if cause.kind in _SAYS_MORE else "") if cause is not None else ""
    if cause is not None and cause.kind == "slow_gpu" and cause.factor:
        name = f"{cause.factor:.2f} ×"
    per = "/step" if job.step_count else " in all"
    # a narrow line is cut at a comma
    known = (f"+{format_ns(parts[what])} {what}{per}", name)
    return ", ".join((f"late: rank {late[0].rank}", *filter(None, known)))


_SAYS_MORE = ("larger", "slow_gpu", "collection", "pause")
_SHORT = {"gpu": "GPU work", "silent": "silent host", "loader": "data loader"}
_WHAT = {"gpu": "GPU work", "silent": "silent host time", "loader": "waiting for its data loader"}


def late_words(late: Late, job: Job) -> str:
    """``14.32 ms more GPU work per step than the median rank, 14.03 ms of it in uneven_work``."""
    per = _per(job)
    parts = [f"{format_ns(late.parts[name])} more {_WHAT[name]} {per}" for name in late.named_by]
    text = " and ".join(parts) + " than the median rank"
    return text + (cause_words(late.cause, late) if late.cause is not None else "")


def sum_words(late: Late, *, short: bool = False) -> str:
    """``, and 1.860 ms less GPU work, which makes 10.42 ms``: what it has less, or too little more to name it."""
    rest = [
        f"{format_ns(abs(ns))} {'more' if ns > 0 else 'less'} {_WHAT[name]}"
        for name, ns in late.parts.items()
        if name not in late.named_by and round(ns)
    ]
    if short and rest:
        return f"; {format_ns(late.late_ns)} with all else"
    return f", and {' and '.join(rest)}, which makes {format_ns(late.late_ns)}" if rest else ""


def _of_what(late: Late) -> str:
    """What it has more of, as ``GPU work and silent host time``."""
    return " and ".join(_WHAT[name] for name in late.named_by)


def cause_words(cause: Cause, late: Late) -> str:
    """The cause, as the end of a sentence that says how much."""
    where = f", {format_ns(cause.ns)} of it in {cause.name}" if cause.name else ""
    alone = late.gpu_ns if cause.kind in ("gpu_work", "copies", "slow_gpu") else late.silent_ns
    if cause.name and cause.ns >= 0.995 * alone:
        where = f", in {cause.name}"
    step = f", nearly all of it in step {cause.step}" if cause.step is not None else ""
    throttled = f"; run.json says its GPU was slowed down by {cause.throttled_by}" if cause.throttled_by else ""
    if cause.kind == "larger":
        more = f"{cause.factor:.2f} times as many blocks"
        return f": as many kernels have {more} (a larger batch, or longer sequences)"
    if cause.kind == "slow_gpu":
        slow = f": each launch of the same kernels takes {cause.factor:.2f} times as long"
        slow += f" in step {cause.step}" if step else ""
        others = f"another process used a GPU of its machine ({cause.beside})" if cause.beside else ""
        if throttled:
            return slow + throttled + (f", and that {others}" if others else "")
        return slow + (f"; run.json says that {others}" if others else " (a lower clock, or a GPU that others use too)")
    if cause.kind == "collection":
        return f": garbage collection{step}"
    if cause.kind == "pause":
        return f"{step}: its host stopped once (garbage collection, or the operating system; no event says which)"
    return f"{where}{step}{throttled}"


def in_recording(job: Job, *, several: bool = False) -> str:
    """Who came last in this recording, and how far that is explained."""
    which = _which(job) if several else "this recording"
    late = job.answers.recording
    if not job.collectives.height:
        return f"Of {which} no collective could be matched: nothing tells who came last."
    if late is None:
        return f"In {which} no rank{_of_those(job)} comes last for long enough to matter."
    text = (
        f"In {which} rank {late.rank} comes last: to {format_count(late.last)} of {format_count(late.of)} collectives,"
        f" which wait {format_ns(late.late_ns)} {_per(job)} for it"
    )
    told = [
        f"{format_ns(ns)} {what}"
        for ns, what in (
            (late.gpu_ns, "more GPU work"),
            (late.silent_ns, "silent host time"),
            (late.loader_ns, "waiting for data"),
        )
        if ns > 0.05 * late.late_ns
    ]
    if told:
        text += f": {' and '.join(told)}"
    if late.untold_ns > 0.5 * late.late_ns:
        rest = "the rest" if told else "that"
        if late.cause is not None and late.cause.kind == "calls":
            return f"{text}; {rest} is its host, whose API calls take {late.cause.factor:.2f} times the median rank's."
        # what fills and drains a pipeline hides who made a stage late
        stages = "what its pipeline made it wait, or " if job.pipeline.height else ""
        text += f"; {rest} is {stages}its host, in many short calls"
    return text + "."


def step_words(job: Job) -> str:
    """The step, beside the clean one, and how much of it is waiting and transfer."""
    if job.step_ns is None:
        return ""
    recorded = f"{format_ns(job.step_ns)} as recorded, the median of the ranks' means"
    if not job.step_count:
        text = f"The recording takes {format_ns(job.step_ns)}"
    elif job.clean_step_ns is not None:
        text = f"A step takes {format_ns(job.clean_step_ns)} without the profiler, {recorded}"
    else:
        text = f"A step takes {recorded}"
    wait = job.ranks["wait_ns"].drop_nulls()
    if len(wait):
        least, most = ("at least ", "at most ") if job.bounded else ("", "")
        if len(wait) > 2:
            middle = float(wait.median() or 0.0)  # type: ignore[arg-type]
            text += f"; of the median rank's recorded one, {least}{format_ns(middle)} is waiting for others and"
        else:  # the median of two would be no rank's
            waits = job.ranks.drop_nulls("wait_ns").select("rank", "wait_ns").iter_rows()
            each = f" and {least}".join(f"{format_ns(ns)} on rank {rank}" for rank, ns in waits)
            text += f"; of the recorded one, {least}{each} are waiting for others, and"
        text += f" {most}{format_ns(job.transfer_ns)} transfer"
    return text + "."


def path_words(job: Job) -> str:
    """Which ranks the critical path is on, as a sentence that follows another; empty where nothing was matched."""
    shares = [
        f"rank {rank} for {format_percent(percent)}"
        for rank, percent in job.path.select("rank", "percent").head(NAMED).iter_rows()
        if percent is not None and percent >= STEP_PERCENT
    ]
    return f" The critical path across ranks is on {', '.join(shares)}." if shares else ""


def at_the_median(late: Late, job: Job) -> float | None:
    """The most that a step could shrink if this rank had no more to do than the median rank, in percent.

    Only what names it counts, and nothing that it has less: it need not take that on.
    """
    step = base_ns(late, job)
    return 100 * min(late.named_ns, step) / step if step else None


def base_ns(late: Late, job: Job) -> float | None:
    """The step that a rank's excess is a share of: the job's.

    A clean step is the median of several, which has nothing of a stop in one of them: then it is the recorded one.
    """
    return job.step_ns if stopped_once(late) else job.shown_ns


def stopped_once(late: Late) -> bool:
    """Whether nearly all of its excess is in one step, so that it is a share of the mean step."""
    return late.cause is not None and late.cause.step is not None


def _as(late: Late, job: Job) -> str:
    return "as recorded" if base_ns(late, job) == job.step_ns else "without the profiler"


def caveats(job: Job) -> list[str]:
    """What words mean and what limits the answers: missing ranks, clocks, collectives that were not matched."""
    found = []
    told = [*job.answers.program, *([job.answers.recording] if job.answers.recording is not None else [])]
    if any(late.silent_ns > 0 for late in told):
        found.append(SILENT)
    if job.left_out:
        others = [f"rank {rank} also has {spans(steps)}" for rank, steps in job.left_out.items()]
        more = f"; {format_count(len(others) - NAMED)} more ranks have others" if len(others) > NAMED else ""
        found.append(
            f"Compared are steps {spans(job.compared)}, which all ranks have: {', '.join(others[:NAMED])}{more}."
        )
    if job.shared and len(job.shared) < job.step_count and job.collectives.height:
        which = f"step{'s' if len(job.shared) > 1 else ''} {spans(job.shared)}"
        few = job.ranks.filter(pl.col("steps") < job.step_count).select("rank", "steps").rows()
        names = ", ".join(f"rank {rank} has {count} of {job.step_count} steps" for rank, count in few[:NAMED])
        more = f"; {format_count(len(few) - NAMED)} more ranks lack some" if len(few) > NAMED else ""
        found.append(
            f"{names[:1].upper()}{names[1:]}{more}: collectives are matched in {which}, which all ranks have, and"
            " waiting and transfer per step are of those."
        )
    if job.empty:
        found.append(
            f"Compared with nothing, as no whole step and no collective is recorded: {_ranks(job.empty)}.{_bounds(job)}"
        )
    if job.missing:
        found.append(
            f"{format_count(job.here)} of {format_count(job.world_size)} ranks are here, and who came last is of those."
            f" Missing: {spans(job.missing)}.{_bounds(job)}"
        )
    elif job.bounded and not (job.empty or job.strange):
        found.append(
            f"Some collectives are matched on few of their ranks: the other recordings name groups otherwise, as"
            f" another tool's do. {BOUNDED}"
        )
    if not job.one_clock and job.residual_ns is not None:
        widest = job.clocks["offset_ns"].abs().max()
        found.append(
            f"Clocks of hosts differ by up to {format_ns(float(widest or 0.0))}; fitted by the ends of collectives,"  # type: ignore[arg-type]
            f" arrivals are told to {format_ns(job.residual_ns)}."
        )
    lost = int(job.unmatched["count"].sum()) if job.unmatched.height else 0
    if lost:
        reasons = job.unmatched.group_by("reason").agg(pl.col("count").sum()).sort("reason")
        words = "; ".join(f"{format_count(count)} {reason}" for reason, count in reasons.iter_rows())
        found.append(f"Of {format_count(lost + job.calls.height)} calls of collectives some were not matched: {words}.")
    return found


def _which(job: Job) -> str:
    return f"the {job.recorded_pass} recording" if job.recorded_pass else "this recording"


def _of_those(job: Job) -> str:
    if job.strange or job.empty:
        return f" of the {format_count(job.here)} that are compared"
    return f" of the {format_count(job.here)} that are here" if job.missing else ""


def _per(job: Job) -> str:
    return "per step" if job.step_count else "over the whole recording"
