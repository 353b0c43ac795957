"""Steps during which a sampler outside the process looks at its stacks; the parent runs it (`collectors.sampling`).

The process stands still in a function of its own before the steps, until the sampler is there, and in another one after
them. The sampler sees both, which tells what its clock shows when a step ends on ours.
"""

from __future__ import annotations

import ctypes
import json
import math
import multiprocessing
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import ranks
from .marks import Marks, synchronize

if TYPE_CHECKING:
    from .progress import Progress

PHASE = "sampling"
ANSWER = "sampler.json"
"""What the parent writes: ``rate_hz``, or ``refused``. Where it is taken away, samples begin anew at another rate."""
LEAST_SAMPLES = 1100
"""About a twentieth of the samples fails."""
WAIT_S = 15.0
STANDS_S = 0.5
"""How long the process stands still before the steps and after them: some samples of all of its processes, even where
the machine is busy."""
_LOOK_S = 0.001
_ASK_AGAIN_S = 0.5
_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
_SET_PTRACER = 0x59616D61
"""PR_SET_PTRACER of prctl(2)."""


class Sampling:
    """The sampled steps of one process; whoever runs them asks before each whether there is one more."""

    def __init__(self, spec: dict[str, Any], clean: Marks, progress: Progress, *, attached: bool = False) -> None:
        """Plans them.

        Args:
            spec: with ``sample_seconds`` (0 for none) and ``sampler_pid``, the process whose children may look.
            clean: the clean steps, by which ranks tell how many steps make the samples.
            progress: by which the parent is asked.
            attached: whether a recording came before, whose library stays attached to the GPU's calls.
        """
        self._spec = spec
        self._attached = attached
        self._progress = progress
        self._clean_ns = clean.step_ns() or clean.host_ns()
        self._marks = Marks(spec["device"])
        self._answer = Path(spec["out"]) / ANSWER
        self._own = not spec.get("rank")
        """Whether this process is the one that is sampled: of a job the first rank."""
        self._planned: int | None = None
        self._wanted_s = 0.0
        self._steps = 0
        self._thread = 0
        self._moments: dict[str, int] = {}
        """When it left the function before the steps, and entered the one after them; ns since 1970."""
        self._rate_hz = 0.0
        self.skipped: list[str] = []
        self.cut_short: str | None = None
        """What is missing, where the program ended first."""

    @property
    def steps(self) -> int:
        """How many steps were sampled so far, or passed while another rank was."""
        return self._steps

    def goes_on(self) -> bool:
        """Whether another step is to be run; before the first it waits for the sampler, after the last it ends."""
        if self._planned is None:
            self._planned = ranks.first_says(self._spec, "samples", self._begin) if self._spec["sample_seconds"] else 0
        elif self._own and self._moments and self._steps and not self._answer.exists():  # anew, at a lower rate
            self._marks = Marks(self._spec["device"])
            self._planned = self._begin() and self._planned
        if self._planned and (self._steps < self._planned if self._is_ranked else self._lacks_samples()):
            return True
        self._stand()
        return False

    def _lacks_samples(self) -> bool:
        return not self._marks.steps or time.time_ns() - self._moments["began"] < self._wanted_s * 1e9

    def step(self) -> None:
        """Marks the end of a step."""
        self._steps += 1
        if self._own:
            self._marks.add()
            self._progress.say(PHASE, self._steps)

    def end(self) -> None:
        """Ends it before it has what it wanted, if it is still under way."""
        if "began" not in self._moments or "ended" in self._moments:
            return
        self._stand()
        wanted, taken = self._rate_hz * self._wanted_s, self._rate_hz * sum(self._marks.host_ns()) / 1e9
        self.cut_short = "no steps were left to sample its lines"
        if self._marks.steps:
            self.cut_short = f"about {taken:.0f} of {wanted:.0f} samples of its lines were taken"

    def _stand(self) -> None:
        """Stands still for the sampler to see, and ends it."""
        if "began" not in self._moments or "ended" in self._moments:
            return
        self._moments["ended"] = time.time_ns()
        _stand_after()
        synchronize(self._spec["device"])
        _allow(0)
        self._progress.say(PHASE, self._steps, self._steps, pid=0)

    def measured(self) -> dict[str, Any] | None:
        """What the parent needs to find the steps in the samples; None where no step was sampled."""
        if not self._marks.steps:
            return None
        return {
            "pid": os.getpid(),
            "rank": self._spec.get("rank"),
            "attached": self._attached,
            "thread": self._thread,
            "moments": self._moments,
            "marks": self._marks.unix_ns,
            "step_ns": self._marks.step_ns(),
            "host_ns": self._marks.host_ns(),
        }

    @property
    def _is_ranked(self) -> bool:
        """Whether other ranks run the same steps, so that their number is fixed before."""
        return self._spec.get("rank") is not None

    def _begin(self) -> int:
        """Waits for the sampler; returns how many steps are to be sampled."""
        synchronize(self._spec["device"])
        self._thread = threading.get_ident()
        _allow(self._spec["sampler_pid"])
        answer = self._asked()
        self._moments = {"began": time.time_ns()}
        if not answer.get("rate_hz"):
            self._moments = {}
            _allow(0)
            self.skipped.append(f"no samples: {answer.get('refused') or 'the sampler did not begin in time'}")
            return 0
        self._marks.add()
        self._rate_hz = answer["rate_hz"]
        self._wanted_s = min(LEAST_SAMPLES / self._rate_hz, self._spec["sample_seconds"])
        return max(1, math.ceil(self._wanted_s * 1e9 * len(self._clean_ns) / max(sum(self._clean_ns), 1)))

    def _asked(self) -> dict[str, Any]:
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            self._progress.say(PHASE, 0, 0, pid=os.getpid(), workers=bool(multiprocessing.active_children()))
            if _stand_before(self._answer):
                try:
                    return dict(json.loads(self._answer.read_text()))
                except (OSError, ValueError):
                    break
        return {}


def _stand_before(answer: Path) -> bool:
    until = time.monotonic() + _ASK_AGAIN_S
    while time.monotonic() < until:
        if answer.exists():
            time.sleep(STANDS_S)
            return True
        time.sleep(_LOOK_S)
    return False


def _stand_after() -> None:
    time.sleep(STANDS_S)


def _allow(pid: int) -> None:
    """Allows a process and what it starts to look into this one, where the system asks for that; 0 for nobody."""
    try:
        if _SCOPE.read_text().strip() == "1":
            ctypes.CDLL(None).prctl(_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)
    except (OSError, AttributeError):
        return
