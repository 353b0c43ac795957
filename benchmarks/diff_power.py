"""Prints the table of benchmarks/accuracy.md that says what a diff sees: false alarms and power by number of steps."""

import argparse

import numpy as np

from tracetui.analysis.compare.step_difference import step_difference

STEPS = (2, 3, 4, 6, 10, 20, 50)
SEED = 16


def _normal(drawn, size):
    return drawn.normal(size=size)


def _skewed(drawn, size):
    return np.exp(0.6 * drawn.normal(size=size))


def _outliers(drawn, size):
    return drawn.normal(size=size) + 10 * (drawn.random(size) < 0.1)


def _two_kinds(drawn, size):
    return 0.1 * drawn.normal(size=size) + 2 * (drawn.random(size) < 0.5)


def _alike(correlation):
    def draw(drawn, size):
        found = drawn.normal(size=size)
        for at in range(1, size[1]):
            found[:, at] = correlation * found[:, at - 1] + (1 - correlation**2) ** 0.5 * found[:, at]
        return found

    return draw


CHANCE = {
    "normal": _normal, "skewed": _skewed, "1 of 10 slow": _outliers, "two kinds": _two_kinds,
    "alike 0.3": _alike(0.3), "alike 0.6": _alike(0.6),
}  # fmt: skip


def _seen(draw, steps, pairs, spread=0.06, change=0.0):
    drawn = np.random.default_rng(SEED)
    ours = 1 + spread * draw(drawn, (pairs, steps))
    theirs = 1 + change + spread * draw(drawn, (pairs, steps))
    found = [step_difference(a, b) for a, b in zip(ours, theirs, strict=True)]
    beyond = 100 * sum(bool(one.beyond_noise) for one in found) / pairs
    return beyond, float(np.median([one.detectable_ns for one in found]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=4000)
    pairs = parser.parse_args().pairs
    print(f"| steps in each run | {' | '.join(CHANCE)} | sees 5 % | sees 10 % | smallest seen |")
    print("|--:" * (len(CHANCE) + 4) + "|")
    for steps in STEPS:
        alarms = [_seen(draw, steps, pairs)[0] for draw in CHANCE.values()]
        power = [_seen(_normal, steps, pairs, change=change)[0] for change in (0.05, 0.10)]
        smallest = _seen(_normal, steps, pairs)[1]
        cells = [f"{alarm:.1f}" for alarm in alarms] + [f"{each:.0f}" for each in power] + [f"{100 * smallest:.1f} %"]
        print(f"| {steps} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
