"""For programs that own their training loop: tells the loop when to stop (same variables as common.drive).

`unit` is the number of steps that a timed region must be a multiple of (an epoch, for short epochs).
"""
import statistics
import time

from common import TIME, TINY, _sync


class Pace:
    def __init__(self, name, unit=1):
        self.name, self.unit, self.steps = name, unit, 0
        self.started = time.perf_counter()
        self.phase, self.regions = "first", []

    def done(self, out):
        """Call once after each step with the step's value; true when the program should end."""
        self.steps += 1
        if TINY:
            if self.steps == 4:
                print(f"CHECK {self.name} {float(out.float().mean()):.6f}")
            return self.steps >= 4
        if not TIME:
            return self.steps >= 100 and time.perf_counter() - self.started >= 30
        if self.phase == "first":
            _sync()
            self.phase, self.until = "warm", time.perf_counter() + 3
        elif self.phase == "warm":
            if time.perf_counter() >= self.until and self.steps % self.unit == 0:
                self._open("probe", self.unit * -(-5 // self.unit))
        elif self.steps == self.last:
            _sync()
            per = (time.perf_counter() - self.t) / self.n
            if self.phase == "probe":
                self._open("timed", self.unit * max(1, round(0.3 / per / self.unit)))
            else:
                self.regions.append(per)
                if len(self.regions) == 10:
                    print(f"STEP {self.name} {statistics.median(self.regions) * 1e3:.3f}", flush=True)
                    return True
                self._open("timed", self.n)
        return False

    def _open(self, phase, n):
        _sync()
        self.phase, self.n, self.last = phase, n, self.steps + n
        self.t = time.perf_counter()
