"""What people read about the samples of a program's lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_count, format_ns, format_percent

if TYPE_CHECKING:
    from tracetui.analysis.report.model import HostSamples

NO_SAMPLES = (
    "No samples of the program's lines: tracetui profile takes them if py-spy is there (pip install 'tracetui[lines]')."
)


def sampled_words(how: HostSamples) -> str:
    """How the lines were sampled, and what that did to the steps."""
    rate = "" if how.rate_hz is None else f" {how.rate_hz:g} times a second"
    steps = "one step" if how.steps == 1 else f"{format_count(how.steps)} steps"
    of_rank = "" if how.rank is None else f" of rank {how.rank} alone"
    number = "" if how.in_steps is None else f" ({format_count(how.in_steps)} samples)"
    after = "after the recordings, with CUPTI still attached" if how.attached else "without a profiler"
    said = f"Sampled{rate} over {steps}{number}{of_rank}, {after}"
    if how.step_us is not None and how.clean_step_us is not None:
        sampled, clean = (format_ns(us * 1e3) for us in (how.step_us, how.clean_step_us))
        said += f"; a step took {sampled} meanwhile, {clean} clean (medians)"
    said += f"; {format_percent(100 * how.lost / how.samples)} of the samples lost" if how.lost and how.samples else ""
    return said + ("; fewer samples than planned, since the machine was busy" if how.behind else "")


def short_line(name: str) -> str:
    """A line without its folders: `train.py:12`."""
    return name.rpartition("/")[2]
