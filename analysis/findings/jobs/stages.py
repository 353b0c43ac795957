"""A pipeline's stages: bubbles beyond what the schedule has, and stages that take longer than others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracetui.analysis.findings.core import gain, words
from tracetui.analysis.findings.core.finding import Evidence, Finding, Query
from tracetui.analysis.findings.core.rule import Threshold, rule

if TYPE_CHECKING:
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.rule import Limits


@rule(
    "S25",
    "Pipeline bubbles",
    needs=("ranks", "job_steps"),
    rests_on=("gpu",),
    thresholds={"bubble_percent": Threshold(20, "%", "of the step in which a stage computes nothing", own=True)},
    advice="More micro-batches per step.",
)
def bubbles(facts: Facts, limits: Limits) -> Finding | None:
    """The stages of a pipeline wait for each other: for their first micro-batch, for their last, and in between.

    GPipe and 1F1B of p stages and m micro-batches can't do with less than (p - 1) / (m + p - 1) of the step. At stake
    is what twice the micro-batches would save of that.
    """
    job = facts.job
    assert job is not None
    stages = job.pipeline.drop_nulls(["bubble_percent", "micro_batches"])
    if not stages.height:
        return None
    share, many = float(stages["bubble_percent"].median() or 0.0), float(stages["micro_batches"][0])  # type: ignore[arg-type]
    ideal, step = float(stages["ideal_percent"][0]), float(stages["step_ns"].median() or 0.0)  # type: ignore[arg-type]
    if share < limits.bubble_percent:
        return None
    count = stages.height
    halved = 100 * (count - 1) / (2 * many + count - 1)
    saved = (ideal - halved) / 100 * step
    beyond = f", {words.percent(share - ideal)} beyond it" if share - ideal > limits.bubble_percent / 2 else ""
    return Finding(
        "S25",
        gain.severity(100 * saved / step if step else None),
        f"Pipeline bubbles: a stage computes nothing for {words.percent(share)} of the step; with {words.number(many)}"
        f" micro-batches {count} stages can't do with less than {words.percent(ideal)}{beyond}",
        tuple(
            Evidence(f"bubble of stage {row['stage']}", row["bubble_percent"], "%", Query("ranks:stages"))
            for row in stages.head(8).iter_rows(named=True)
        ),
        f"({count} - 1) / ({words.number(many)} + {count} - 1) = {words.percent(ideal)}; with twice the micro-batches"
        f" {words.percent(halved)}",
        f"{words.percent(limits.bubble_percent)} of the step",
        "More micro-batches per step, an interleaved schedule (several chunks of layers per stage), or zero-bubble"
        " schedules; what is beyond the ideal is uneven stages (S26) or sends that nothing hides.",
        impact_ns=saved,
        ceiling_percent=100 * saved / step if step else None,
    )


@rule(
    "S26",
    "Uneven stages of a pipeline",
    needs=("ranks", "job_steps"),
    rests_on=("gpu",),
    thresholds={
        "uneven_percent": Threshold(10, "%", "(largest − mean) / largest of the stages' own GPU work", own=True)
    },
    advice="Move layers from the longest stage to the others.",
)
def uneven_stages(facts: Facts, limits: Limits) -> Finding | None:
    """One stage has more GPU work of its own than the others, and so sets the pace of all.

    Imbalance is (largest - mean) / largest. In a full pipeline every micro-batch waits for the longest stage, so at
    stake is what that stage has above the mean.
    """
    job = facts.job
    assert job is not None
    stages = job.pipeline.drop_nulls("own_gpu_ns").sort("own_gpu_ns", descending=True)
    if stages.height < 2:
        return None
    most, mean = float(stages["own_gpu_ns"][0]), float(stages["own_gpu_ns"].mean() or 0.0)  # type: ignore[arg-type]
    uneven = 100 * (most - mean) / most if most else 0.0
    if uneven < limits.uneven_percent:
        return None
    step = float(stages["step_ns"].median() or 0.0)  # type: ignore[arg-type]
    ceiling = 100 * min(most - mean, step) / step if step else None
    every = stages.sort("stage").select(pl.col("stage", "own_gpu_ns")).head(8)
    return Finding(
        "S26",
        gain.severity(ceiling),
        f"Stage {stages['stage'][0]} of the pipeline has most work: {words.ns(most)} per step where the mean is"
        f" {words.ns(mean)}",
        tuple(
            Evidence(f"own GPU work of stage {row['stage']}", row["own_gpu_ns"], "ns", Query("ranks:stages"))
            for row in every.iter_rows(named=True)
        ),
        f"({words.ns(most)} - {words.ns(mean)}) / {words.ns(most)} = {words.percent(uneven)}",
        f"{words.percent(limits.uneven_percent)}",
        "Move layers to the other stages; embedding and head count as layers too.",
        impact_ns=most - mean,
        ceiling_percent=ceiling,
    )
