"""`tracetui try -- python SCRIPT`: changes of an unmodified program, measured, as one table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import convert

from tracetui.analysis.base.number_format import format_ns
from tracetui.app.cli.commands.profile import followed, interpreter, say
from tracetui.app.reports.layout import Layout
from tracetui.app.text.exit_codes import DONE, UNREADABLE, UsageError
from tracetui.app.text.fitting import printable
from tracetui.collectors.child.changes import BY_NAME, CHANGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.app.cli.try_options import Options
    from tracetui.collectors.trying import Trying, TryRequest
    from tracetui.parsers.runs.proofs import Claim


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
            raise UsageError(f"{name}: no such change; there are {', '.join(BY_NAME)}")
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


def dry_run(request: TryRequest) -> list[str]:
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
        print("\n".join(map(printable, dry_run(request))))
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
