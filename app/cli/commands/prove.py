"""`tracetui try`: makes changes, which findings of a run advise or which fit a program, and measures what they gain."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import convert

from tracetui.analysis.base.number_format import format_ns
from tracetui.app.cli import headless
from tracetui.app.cli.command import option, switch
from tracetui.app.cli.commands.profile import followed, interpreter, say
from tracetui.app.cli.options import Common, check_there, format_option
from tracetui.app.cli.values import count, duration, input_path, number_of_seconds
from tracetui.app.reports.layout import Layout
from tracetui.app.text.exit_codes import DONE, UNREADABLE, UsageError
from tracetui.app.text.fitting import printable
from tracetui.collectors.child.changes import BY_NAME, CHANGES
from tracetui.collectors.request import ProfileError
from tracetui.parsers.errors import instead

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tracetui.analysis.findings.core.change import Given
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.finding import Finding, Findings
    from tracetui.collectors.proving import ProveRequest, Trial
    from tracetui.collectors.trying import Trying, TryRequest
    from tracetui.parsers import Run
    from tracetui.parsers.runs.manifest import RunManifest
    from tracetui.parsers.runs.proofs import Claim


def run(options: Options) -> int:
    """Measures the chosen changes of a run."""
    try:
        if options.path is None:
            return _try_alone(options, options.program)
        check_there([options.path])
        return _prove(options, options.path, options.program)
    except ProfileError as problem:
        raise UsageError(str(problem)) from problem


def _try_alone(options: Options, program: tuple[str, ...]) -> int:
    """Tries changes of a program of which there is no run.

    Raises:
        UsageError: there is no program either.
    """
    if not program:
        raise UsageError("try takes a program after `--`, such as -- python train.py, or a run")
    return tried(request_of(options, program, {}), options)


def _prove(options: Options, path: Path, program: tuple[str, ...]) -> int:
    """Measures the chosen changes; returns the exit code.

    Raises:
        UsageError: there is nothing that could be measured; says why.
        ProfileError: nothing can be written or started.
    """
    facts, found = _findings(options, path)
    run = facts.run
    manifest = run.manifest
    if manifest is None:
        raise UsageError(
            f"{run.path}: no run.json in it, so its options are not known; `tracetui profile` makes runs that can be"
            " proved"
        )
    if program and not options.base and _is_the_same(manifest, program):
        recorded = tuple(one.name for one in manifest.device if one.name)
        claims = _claims_of_changes(facts, found, options)
        request = request_of(options, program, claims, (manifest.workload.device, recorded))
        return tried(request, options)
    if program:
        trials: tuple[Trial, ...] = (_of_program(facts, found, options, program),)
    else:
        trials, refused = trials_of(facts, found, options.findings, options.change)
        for line in refused:
            say(line)
    if not trials:
        raise UsageError(_nothing(run, options))
    proving = _request(run, manifest, options, trials)
    if options.dry_run:
        print("\n".join(map(printable, dry_run(proving))))
        return DONE
    return _measured(proving, options)


def _findings(options: Options, path: Path) -> tuple[Facts, Findings]:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.engine import findings_of
    from tracetui.analysis.scope import Scope

    run = headless.open_run([path], options)
    facts = Facts(run, run.main, Scope())
    return facts, findings_of(facts, headless.rules_config(path), options.on_error)


# --- which changes


def trials_of(
    facts: Facts, found: Findings, ids: Sequence[str], changes: Sequence[str]
) -> tuple[tuple[Trial, ...], list[str]]:
    """What to measure, largest bound first, and a line for each finding that can't be proved.

    Args:
        facts: the run's.
        found: its findings.
        ids: findings that were asked for, each with all its changes; empty for all findings, each with its best one.
        changes: ``option=value`` to measure whatever the findings say.

    Raises:
        UsageError: a change can't be understood.
    """
    from tracetui.collectors.proving import Trial

    own = [_typed(text) for text in changes]
    wanted = list(dict.fromkeys(id.upper() for id in ids))
    by_id = {finding.id: finding for finding in found.found}
    refused = [line for id in wanted if (line := _refusal(id, by_id, found))]
    chosen = [by_id[id] for id in wanted if id in by_id] if wanted else ([] if own else list(found.found))
    chosen.sort(key=lambda finding: -(finding.impact_ns or 0.0))
    trials: dict[str, Trial] = {}
    for finding in chosen:
        for given in finding.changes if wanted else finding.changes[:1]:
            before = trials.get(given.text)
            claims = (*(before.claims if before is not None else ()), _claimed(finding, facts, given))
            agrees = given.change.agrees
            trials[given.text] = Trial(given.text, {given.option: given.value}, claims=claims, agrees=agrees)
    for options in own:
        words = " ".join(_flag(name, value) for name, value in options.items())
        trials.setdefault(words, Trial(words, options, agrees="dtype" not in options))
    return tuple(trials.values()), refused


def _claimed(finding: Finding, facts: Facts, given: Given | None = None) -> Claim:
    from tracetui.parsers.runs.proofs import Claim

    bound = (finding.impact_ns, finding.ceiling_percent, finding.sure_percent)
    if given is None:
        return Claim(finding.id, *bound)
    return Claim(finding.id, *bound, also=given.change.also or None, most_ns=given.most_ns(facts))


def _refusal(id: str, by_id: dict[str, Finding], found: Findings) -> str:
    """Why a finding can't be proved; empty if it can."""
    from tracetui.analysis.findings.catalogue import all_rules

    if id in by_id:
        if by_id[id].changes:
            return ""
        return f"{id}: no option of the run does what it advises"
    if id not in all_rules():
        return f"{id}: there is no such rule; `tracetui reference rules` lists them"
    if any(each.finding.id == id for each in (*found.suppressed, *found.silenced)):
        return f"{id}: was set aside in this run"
    return f"{id}: is no finding of this run"


def _typed(text: str) -> dict[str, Any]:
    """``dtype=bf16,compile=true`` as options."""
    options: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not name or (equals and not value):
            raise UsageError(f"--change {text}: give OPTION=VALUE, such as dtype=bf16")
        known: object = {"true": True, "yes": True, "false": False, "no": False}.get(value.lower(), value)
        known = int(value) if value.isdecimal() else known
        options[name.strip().lstrip("-").replace("-", "_")] = known if equals else True
    return options


def _flag(name: str, value: object) -> str:
    flag = f"--{name.replace('_', '-')}"
    return flag if value is True else f"{flag} {value}"


def _nothing(run: Run, options: Options) -> str:
    asked = "what was asked for can't be proved" if options.findings else "no finding of it has a change to measure"
    own = run.manifest is not None and "--" in run.manifest.identity.command
    advice = (
        "give the changed command: -- python SCRIPT …" if own else "--change OPTION=VALUE measures one of your choice"
    )
    return f"{run.path}: {asked}; {advice}"


# --- a program of one's own


def _is_the_same(manifest: RunManifest, program: tuple[str, ...]) -> bool:
    """Whether it is the recorded command; then it is changed from outside."""
    from tracetui.collectors.machine.masking import masked

    words = manifest.identity.command
    return "--" in words and tuple(words[words.index("--") + 1 :]) in (program, tuple(masked(program)))


def _claims_of_changes(facts: Facts, found: Findings, options: Options) -> dict[str, tuple[Claim, ...]]:
    """By change from outside: the findings of the run that advise it, or those of them that were asked for."""
    from tracetui.collectors.child.changes import CHANGES

    wanted = {id.upper() for id in options.findings}
    claims = {finding.id: _claimed(finding, facts) for finding in found.found if not wanted or finding.id in wanted}
    return {change.name: tuple(claims[rule] for rule in change.rules if rule in claims) for change in CHANGES}


def _of_program(facts: Facts, found: Findings, options: Options, program: tuple[str, ...]) -> Trial:
    from tracetui.collectors.proving import Trial

    if options.change:
        raise UsageError("--change is for models; after `--` comes the whole changed command")
    wanted = {id.upper() for id in options.findings}
    if unknown := wanted - {finding.id for finding in found.found}:
        raise UsageError(f"{sorted(unknown)[0]}: is no finding of this run")
    claims = tuple(_claimed(finding, facts) for finding in found.found if finding.id in wanted)
    return Trial("another command", command=program, claims=claims)


def base_command(manifest: RunManifest, options: Options, program: tuple[str, ...]) -> tuple[str, ...]:
    """The program as it was: what was typed after `--` when it was recorded, or ``--base``.

    Only arguments are taken from run.json, which may be somebody else's: the program has to be the one that was typed.

    Raises:
        UsageError: run.json does not say it whole, or names another program.
    """
    if options.base:
        return tuple(shlex.split(options.base))
    words = manifest.identity.command
    if "--" not in words:
        raise UsageError("the run is of a model, not of a program of your own: leave `--` out, or give --base COMMAND")
    before = words[words.index("--") + 1 :]
    if any("***" in word for word in before):
        raise UsageError("run.json masks part of the command as a secret: give it whole, --base 'python SCRIPT …'")
    if before[:2] != program[:2] or len(before) < 2:
        raise UsageError(
            f"the run is of {shlex.join(before[:2])}, and {shlex.join(program[:2])} is another program: give the"
            " command as it was, --base 'python SCRIPT …'"
        )
    return before


# --- the request


def _request(run: Run, manifest: RunManifest, options: Options, trials: tuple[Trial, ...]) -> ProveRequest:
    from tracetui.collectors.proving import ProveRequest, check_writable

    output: Path = options.output or (run.path if run.path.is_dir() else run.path.parent)
    if not options.dry_run:
        check_writable(output)
    workload = manifest.workload
    device = options.device or str(workload.options.get("device") or workload.device or "cuda")
    known = tuple(one.name for one in manifest.device if one.name)
    common: dict[str, Any] = {
        "output": output, "device": device, "recorded_on": known if device != "cpu" else (),
        "rounds": options.rounds, "timeout_s": options.timeout,
    }  # fmt: skip
    if trials[0].command:
        check_program(trials[0].command)
        command = base_command(manifest, options, trials[0].command)
        python = options.python or interpreter(trials[0].command)
        return ProveRequest(trials=trials, command=command, python=python, **common)
    if manifest.ranks or workload.options.get("parallel"):
        raise UsageError(f"{run.path}: a job of many ranks can't be proved yet")
    entry, before = _model(manifest, options)
    trials = tuple(trial for trial in trials if _can(entry, {**before, "device": device, **trial.options}, trial))
    if not trials:
        raise UsageError(_nothing(run, options))
    python = options.python or sys.executable
    return ProveRequest(trials=trials, entry=entry, options=before, python=python, **common)


def _model(manifest: RunManifest, options: Options) -> tuple[str, dict[str, Any]]:
    """The run's model and the options that it takes.

    Raises:
        UsageError: the run is of something else.
    """
    from tracetui.models import registry
    from tracetui.models.errors import ModelError

    name = manifest.workload.model or ""
    try:
        entry = registry.find(name)
    except ModelError:
        raise UsageError(
            "the run is of a program of your own: give the changed command after `--`, such as -- python SCRIPT …"
        ) from None
    if entry.family == "user" and options.own_model != name:
        raise UsageError(f"the run's model is code of your own, {name}: name it, --model {name}")
    given = manifest.workload.options
    return name, {option: given[option] for option in entry.options if given.get(option) is not None}


def _can(name: str, options: dict[str, Any], trial: Trial) -> bool:
    """Whether the model takes the changed options; says why it does not."""
    from tracetui.models import registry
    from tracetui.models.errors import ModelError

    try:
        registry.find(name).check(options)
    except ModelError as error:
        who = ", ".join(claim.id or "" for claim in trial.claims)
        say(f"{who or trial.change}: {error}")
        return False
    return True


def dry_run(request: ProveRequest) -> list[str]:
    """What would be done, a line each."""
    from tracetui.collectors.proving import BLOCK_S, ROUNDS, TURN_S

    lines = []
    for trial in request.trials:
        who = ", ".join(claim.id or "" for claim in trial.claims) or "no finding"
        if trial.command:
            lines += [
                f"{who}: {trial.change}, {request.processes_rounds} rounds, each turn a process of {TURN_S:g} s of"
                " steps after its warm-up",
                f"  as it was: {shlex.join(request.command)}",
                f"  changed:   {shlex.join(trial.command)}",
            ]
            continue
        rounds = request.rounds or ROUNDS
        lines += [
            f"{who}: {trial.change}, {rounds} rounds of two turns of {1e3 * BLOCK_S:g} ms of steps in one process,"
            f" or {request.processes_rounds} rounds of processes where the memory is too small for both",
            f"  as it was: {request.entry} {_shown({**request.options, 'device': request.device})}".rstrip(),
            f"  changed:   {trial.change}",
        ]
    return lines


def _shown(options: dict[str, Any]) -> str:
    return " ".join(_flag(name, value) for name, value in options.items() if value not in (False, None))


# --- measuring


def _measured(request: ProveRequest, options: Options) -> int:
    from tracetui.collectors.proving import add, measure
    from tracetui.collectors.requirements import check_modules

    check_modules(request.python, request.entry, request.entry or "timing a program")
    done: list[dict[str, Any]] = []
    target = None
    for trial in request.trials:
        with followed() as report:
            proof = measure(request, trial, report)
        target = add(request.output, [proof])
        done.append(proof)
        if options.format == "text":
            for said in lines_of(proof):
                print(printable(said, ascii=bool(options.ascii)), flush=True)
    if options.format == "json":
        print(json.dumps({"schema": "tracetui.proofs/1", "proofs": done}, indent=1))
    say(f"written to {target}")
    return DONE if any(proof.get("gain_ns") is not None for proof in done) else UNREADABLE


def lines_of(proof: dict[str, Any]) -> Iterable[str]:
    """A line for each finding that a proof is about."""
    from msgspec import convert

    from tracetui.analysis.report.findings import proof_row
    from tracetui.app.reports.finding_words import proof_text
    from tracetui.parsers.runs.proofs import Proof

    read = convert(proof, Proof)
    if not read.claims:
        yield proof_text(proof_row(read))
    for claim in read.claims:
        yield f"{claim.id}: {proof_text(proof_row(read, claim))}"


def _rounds(text: str) -> int:
    from tracetui.collectors.proving import LEAST_ROUNDS

    number = count(text)
    if number < LEAST_ROUNDS:
        raise argparse.ArgumentTypeError(f"at least {LEAST_ROUNDS}, for an interval")
    return number


def _provable() -> Sequence[str]:
    from tracetui.analysis.findings.catalogue import all_rules

    return tuple(id for id, rule in all_rules().items() if rule.changes)


@dataclass(kw_only=True)
class Options(Common):
    """Make changes and measure what they gain: as it was and changed take turns, without a profiler. A program of your
    own is changed from outside, in its process, without an edit: it runs once, and each change that fits what it does
    is measured. Of a run of a known model, its findings say what to change: all that have a change, largest bound
    first, each with its best one. The proofs are written into the run and shown with its findings.
    """

    usage: ClassVar[str] = (
        "tracetui try [RUN] [options] -- python SCRIPT ...\n       tracetui try RUN [FINDING ...] [options]\n"
        "       tracetui try RUN [FINDING ...] -- python CHANGED_SCRIPT ..."
    )
    path: Path | None = option(nargs="?", type=input_path, metavar="RUN", help="a run that `tracetui profile` made")
    findings: list[str] = option(
        nargs="*", default=[], metavar="FINDING", help="ids of findings, such as F6: all their changes", words=_provable
    )
    change: list[str] = option(
        "--change",
        action="append",
        default=[],
        metavar="CHANGE",
        help="measure this change, whatever the findings say: of a program its name (`--dry-run` lists them), of a "
        "model OPTION=VALUE such as dtype=bf16, commas for several options at once (repeatable)",
    )
    join: list[str] = option(
        "--join",
        action="append",
        default=[],
        metavar="CHANGE",
        help="of a program: put this change together with others although it computes something else (repeatable)",
    )
    budget: float = option(
        "--budget", type=duration, default=600.0, metavar="TIME", help="of a program: time for all (default: 10m)"
    )
    own_folders: bool = switch("--own-folders", help="of a program: each run works in an empty folder of its own")
    run: str | None = option(
        "--run", metavar="NAME", help="the run to use if a folder holds several, by letter or name"
    )
    rounds: int | None = option(
        "--rounds", type=_rounds, metavar="N", help="turns of each variant (default: 12 in one process, else 3 of each)"
    )
    device: str | None = option(
        "--device",
        metavar="cpu|cuda|cuda:N",
        help="default: the device that the run used",
        words=lambda: ("cpu", "cuda"),
    )
    timeout: float | None = option(
        "--timeout", type=number_of_seconds, metavar="SECONDS", help="end a process that takes longer"
    )
    python: str | None = option(
        "--python",
        metavar="PATH",
        help="the Python that has torch (default: this or the program's)",
        values="programs",
    )
    own_model: str | None = option(
        "--model", metavar="MODULE:FACTORY", help="the run's model if it is your own: code is run only if you name it"
    )
    base: str | None = option(
        "--base",
        metavar="COMMAND",
        help="for a program of your own: the command as it was, if run.json does not say it whole",
    )
    output: Path | None = option(
        "-o", "--output", type=Path, metavar="DIR", help="write proofs.json there (default: into the run)"
    )
    format: str = format_option("text", "json")
    dry_run: bool = switch("--dry-run", help="print what would be measured; run nothing")
    program: tuple[str, ...] = ()


def check_program(program: tuple[str, ...]) -> None:
    """Raises UsageError for a program that can't be timed step by step here."""
    from tracetui.collectors.torchrun import ranked

    if ranked(program) is not None:
        raise UsageError("a job of many ranks can't be proved yet")
    if len(program) < 2 or not program[0].rpartition("/")[2].startswith("python"):
        raise UsageError("a program is timed by its calls of Optimizer.step in Python: -- python SCRIPT …")


def request_of(
    options: Options,
    program: tuple[str, ...],
    claims: dict[str, tuple[Claim, ...]],
    recorded: tuple[str | None, tuple[str, ...]] = (None, ()),
) -> TryRequest:
    """What to try on a program.

    Args:
        options: what was typed.
        program: its command.
        claims: by change, the findings that advise it.
        recorded: device of the run, and its GPUs.

    Raises:
        UsageError: no such change, or a program that can't be tried.
    """
    from tracetui.app.cli.commands.profile import _device
    from tracetui.collectors.proving import check_writable
    from tracetui.collectors.trying import TryRequest

    check_program(program)
    for name in (*options.change, *options.join):
        if name not in BY_NAME:
            raise UsageError(f"{name}: no such change; {instead(name, BY_NAME)}")
    device = options.device or recorded[0] or _device()
    if (output := kept_in(options)) is not None and not options.dry_run:
        check_writable(output)
    return TryRequest(
        output=output or Path(),
        trials=(),
        command=program,
        device=device,
        recorded_on=recorded[1] if device != "cpu" else (),
        rounds=options.rounds,
        timeout_s=options.timeout,
        python=options.python or interpreter(program),
        names=tuple(options.change),
        join=tuple(options.join),
        claims=claims,
        budget_s=options.budget,
        own_folders=options.own_folders,
    )


def kept_in(options: Options) -> Path | None:
    """The folder that gets the proofs; None for none."""
    path = options.path
    return options.output or (path if path is None or path.is_dir() else path.parent)


def dry_run_of_program(request: TryRequest) -> list[str]:
    """What could be tried."""
    wanted = [change for change in CHANGES if not request.names or change.name in request.names]
    lines = ["the program runs once; of these changes, those that fit what it does are measured:"]
    return lines + [f"  {change.name}: {change.write}" for change in wanted]


def tried(request: TryRequest, options: Options) -> int:
    """Tries the changes and prints the table, also of what was done until Ctrl+C, or what it would try.

    Raises:
        UsageError: the program can't be timed as it is.
        KeyboardInterrupt: it was stopped.
    """
    from tracetui.collectors.proving import NotMeasured, add
    from tracetui.collectors.requirements import check_modules
    from tracetui.collectors.trying import Trying

    if options.dry_run:
        print("\n".join(map(printable, dry_run_of_program(request))))
        return DONE
    check_modules(request.python, None, "timing a program")
    output = kept_in(options)

    def keep(proof: dict[str, Any]) -> None:
        before, after = format_ns(proof["step_ns"]), format_ns(proof["changed_ns"])
        beside = ", ".join(proof["beside"])
        say(f"{proof['change']}: a step takes {after}, {f'beside {beside}' if beside else 'as it was'} {before}")
        if output is not None:
            add(output, [proof])

    with followed() as report:
        trying = Trying(request, report, say, keep)
        stopped: KeyboardInterrupt | None = None
        try:
            trying.run()
        except NotMeasured as problem:
            raise UsageError(f"the program as it is: {problem}") from None
        except KeyboardInterrupt as stop:
            stopped = stop
    proofs = trying.proofs()
    if output is not None and proofs:
        say(f"written to {add(output, proofs)}")
    if options.format == "json":
        print(json.dumps({"schema": "tracetui.proofs/1", "proofs": proofs, "untried": trying.untried}, indent=1))
    else:
        print("\n".join(table(trying, proofs, Layout(ascii=bool(options.ascii)))), flush=True)
    if stopped is not None:
        raise stopped
    return DONE if any(proof.get("gain_ns") is not None for proof in proofs) else UNREADABLE


def table(trying: Trying, proofs: Sequence[dict[str, Any]], layout: Layout) -> list[str]:
    """As it was, each change, those together; below it what to write, what failed and what was left out."""
    from tracetui.analysis.report.rows import table_rows
    from tracetui.analysis.tables.findings import TRIED
    from tracetui.analysis.tried import tried
    from tracetui.app.reports.content.tried import tried as parts
    from tracetui.app.reports.text import text
    from tracetui.parsers.runs.proofs import Proof

    rows = table_rows(tried(convert(proofs, list[Proof])), TRIED)
    lines = text(parts(rows, layout, _about_results(trying) if trying.originals else ""), layout).splitlines()
    if (apart := trying.apart()) is not None:
        (change,) = apart.changes
        joins = f"{change.title} computes something else: --join {change.name} puts it together with the others."
        lines += ["", *layout.paragraph(joins)]
    if trying.not_joined:
        names = ", ".join(change.title for change in trying.not_joined)
        lines += ["", *layout.paragraph(f"Not measured together, as the time was used up: {names}.")]
    if trying.untried:
        names = ", ".join(BY_NAME[name].title for name in trying.untried)
        lines += ["", *layout.paragraph(f"Not tried: {names}.")]
    return lines


def _about_results(trying: Trying) -> str:
    what = trying.originals[0].results["what"] if trying.originals else "results"
    seeded = "its own seed" if trying.facts.get("seeded") else "a seed that tracetui set"
    parameters = " and parameters after the first steps" if what == "losses" else " of the first calls"
    return (
        f"Gain: of the step as it was in the same rounds. Results: {what}{parameters}, with {seeded}; same: as near as"
        " two unchanged runs; rounding: as near as rounding errors leave them."
    )
