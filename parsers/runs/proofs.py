"""Reads `proofs.json`, what `tracetui try` measured of a run: changes that findings advise, and what they gained.

Times are ns, of a step of the run as it was recorded; those of a changed step are of as many samples, so that a larger
batch compares.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct, field

from tracetui.parsers.runs.json_records import Number, Whole, members, record
from tracetui.parsers.runs.side_files import read_text
from tracetui.parsers.tally import Tally

SCHEMA = "tracetui.proofs/1"
FILE = "proofs.json"
_FAMILY = "tracetui.proofs/"
_MAX_BYTES = 16 << 20


class Claim(Struct, frozen=True, gc=False):
    """What one finding of the run said before the change was measured."""

    id: str | None = None
    """Of its rule: `F6`."""
    bound_ns: Number | None = None
    """The most that a step could be shorter; null where the finding promised no time."""
    bound_percent: Number | None = None
    """The same, % of the step."""
    sure_percent: Number | None = None
    """The part that is gained whatever recording cost the host, % of the step; null where it is not known."""
    also: str | None = None
    """What the change does besides what this bound counts; null for nothing."""
    most_ns: Number | None = None
    """The most that all of the change can gain; null where no recording tells, or it does no more than the finding
    says."""


class Compared(Struct, frozen=True, gc=False):
    """How far the results of both variants are apart, on the same weights and the same batch."""

    what: str | None = None
    """`outputs` of an inference, `losses` of the first steps of training."""
    numbers: Whole | None = None
    """How many were compared, evenly taken from all of them."""
    largest: Number | None = None
    """The largest difference of two of them; null where one of them was no number."""
    scale: Number | None = None
    """The largest number of the unchanged run, by its size."""
    should_agree: bool | None = None
    """Whether the change leaves the arithmetic as it is, but for its order."""
    moved_percent: Number | None = None
    """Of a change made from outside: how far parameters are apart after the first steps, % of how far these moved
    them."""
    alike: str | None = None
    """Of such a change: `same` (no further apart than two unchanged runs), `rounding` (no further than rounding errors
    put them), `differ`, or `unknown` (nothing to compare, or unchanged runs are as far apart)."""


class Proof(Struct, frozen=True, gc=False):
    """One change, measured against the run as it was, without a profiler."""

    change: str | None = None
    """As options: `--attention fused`; of a program of one's own `another command`."""
    options: dict[str, Any] = field(default_factory=dict)
    """The same by their names."""
    command: tuple[str, ...] = ()
    """Of a program of one's own: the changed command; what looks like a secret is `***`."""
    changes: tuple[str, ...] = ()
    """Of a program that was changed from outside: the names of the changes; `command` is then the program's own."""
    beside: tuple[str, ...] = ()
    """Of such a program: changes that both variants have, so that the step "as it was" is one with them; as `change`
    says them."""
    write: tuple[str, ...] = ()
    """The lines that make them in the program."""
    risks: tuple[str, ...] = ()
    """What they may break."""
    memory_bytes: Whole | None = None
    """The most memory of the GPU that tensors took as it was; on the CPU, of the process."""
    changed_memory_bytes: Whole | None = None
    """The same, changed."""
    claims: tuple[Claim, ...] = ()
    """The findings that advise it."""
    explanation: str | None = None
    """Why it could not be measured, in a line; null where it was."""
    step_ns: Number | None = None
    """A step as it was: the median of the rounds."""
    changed_ns: Number | None = None
    """A changed step, of as many samples: the median of the rounds."""
    gain_ns: Number | None = None
    """How much shorter the step became: the median of the rounds' differences, negative where it became longer."""
    low_ns: Number | None = None
    """The lower end of the gain's 95 % interval; null with too few rounds for one."""
    high_ns: Number | None = None
    """Its upper end."""
    host_ns: Number | None = None
    """How long the host took to give out a step as it was; median of the rounds."""
    changed_host_ns: Number | None = None
    """The same of a changed step, of as many samples."""
    batch_factor: Number | None = None
    """Samples of a changed step, by those of a step as it was."""
    rounds: Whole | None = None
    """How often both took their turn."""
    steps_per_round: tuple[Whole, ...] = ()
    """Timed steps of a turn: as it was, and changed."""
    round_ns: tuple[Number, ...] = ()
    """The mean step of each turn, as it was."""
    changed_round_ns: tuple[Number, ...] = ()
    """The same, changed, of as many samples."""
    one_process: bool | None = None
    """Whether both ran in one process; else in processes that took turns."""
    compared: Compared | None = None
    """Null where nothing was compared."""
    device: str | None = None
    """The GPU, or `cpu`."""
    recorded_on: str | None = None
    """The GPU of the recording, where it is another one: then no finding's bound applies."""
    torch: str | None = None
    tracetui_version: str | None = None
    measured_utc: str | None = None
    """ISO 8601."""

    @property
    def measured(self) -> bool:
        """Whether there is a result."""
        return self.gain_ns is not None

    def does_more(self, claim: Claim) -> bool:
        """Whether even the lower end of the gain is above what the finding counts.

        Where the step takes longer here than in the recording, what it takes longer may be gained too, and the bound
        grows with the step.
        """
        return claim.bound_ns is not None and self._above(claim, claim.bound_ns)

    def exceeds(self, claim: Claim) -> bool:
        """Whether even the lower end is above the most that the change can gain: then a bound was too low."""
        if claim.most_ns is not None:
            return self._above(claim, max(claim.most_ns, claim.bound_ns or 0.0))
        return not claim.also and self.does_more(claim)

    def _above(self, claim: Claim, bound_ns: float) -> bool:
        if self.low_ns is None or self.recorded_on is not None:
            return False
        here = self.step_ns or 0.0
        recorded = here
        if claim.bound_ns and claim.bound_percent:
            recorded = 100 * claim.bound_ns / claim.bound_percent
        longer = max(here - recorded, 0.0)
        return self.low_ns > max(bound_ns + longer, bound_ns * here / recorded if recorded else bound_ns)


class Proofs(Struct, frozen=True, gc=False):
    """The whole file."""

    schema: str | None = None
    """`tracetui.proofs/1`"""
    proofs: tuple[Proof, ...] = ()
    """Each change once, in the order in which they were measured last."""


def load(folder: Path) -> tuple[tuple[Proof, ...], str | None]:
    """What was proved of the run in a folder, and why the file can't be read, if there is one."""
    file = folder / FILE
    try:
        found = members(read_text(file, _MAX_BYTES))
    except FileNotFoundError:
        return (), None
    except OSError as error:
        return (), (error.strerror or str(error)).lower()
    except (ValueError, RecursionError):
        return (), "left out, since it is damaged"
    whole: Proofs | None = None if found is None else record(Proofs, found, Tally())
    if whole is None or not (whole.schema or "").startswith(_FAMILY):
        return (), f"left out, since it is no {SCHEMA}"
    return whole.proofs, None
