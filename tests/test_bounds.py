"""What findings say a change gains at most, against what it gained: recordings of programs with and without it."""

from pathlib import Path
from statistics import median

import pytest
from judged import found_in
from reported import opened
from sample_runs import CAUSES, DATA, PLANTED

from tracetui.analysis.findings.core.facts import Facts

OWN = DATA / "pairs"
GAINS = (
    (OWN / "fp32_mlp", "F1", 38.2),
    (OWN / "unet_nchw", "F11", 8.1),
    (CAUSES / "adapter_tune", "F26", 14.0),
    (CAUSES / "churn_one_hot", "F26", 7.4),
    (CAUSES / "ddpm", "S31", 4.1),
    (CAUSES / "embed_server", "S40", 75.7),
    (CAUSES / "field", "K16", 5.7),
    (CAUSES / "genome", "F26", 28.1),
    (CAUSES / "gnn_full", "S35", 3.7),
    (CAUSES / "jetscore", "F26", 7.4),
    (CAUSES / "landcover", "F25", 18.5),
    (CAUSES / "metric_learning", "F7", 24.2),
    (CAUSES / "ranker", "F23", 10.9),
    (CAUSES / "segmentation", "S34", 5.0),
    (CAUSES / "simclr", "F25", 19.1),
    (CAUSES / "tabular", "S28", 1.9),
    (DATA / "limits" / "odd_sizes", "K2", 8.79),
    (PLANTED / "nchw", "F11", 18.7),
    (PLANTED / "ckpt", "S30", 15.5),
    (PLANTED / "clip_loop", "S29", 7.0),
    (PLANTED / "save_often", "S28", 120.0),
    (PLANTED / "pageable", "S8", 20.5),
    (PLANTED / "pageable", "S10", 20.5),
    (PLANTED / "watch", "S13", 36.0),
    (PLANTED / "cpu_opt", "S8", 56.0),
    (PLANTED / "lstm_cell", "S2", 31.0),
    (PLANTED / "blocking", "S2", 16.0),
)
"""Recording, finding, and what its change took off a step, ms: medians of clean steps of both variants."""


def bound_ms(folder: Path, rule: str) -> float:
    """The largest gain that findings of a rule promise, ms, among all that is found."""
    return max(finding.impact_ns or 0.0 for finding in found_in(folder).found if finding.id == rule) / 1e6


def test_a_bound_holds_what_its_advice_gained_and_little_more() -> None:
    at_hand = [entry for entry in GAINS if entry[0].exists()]
    ratios = {f"{folder.name} {rule}": bound_ms(folder, rule) / gained for folder, rule, gained in at_hand}
    assert {name: ratio for name, ratio in ratios.items() if ratio < 0.9} == {}
    assert median(ratios.values()) <= 1.5


@pytest.mark.parametrize("folder", sorted(OWN.iterdir()), ids=lambda folder: folder.name)
def test_the_ends_of_a_gain_lie_within_the_step(folder: Path) -> None:
    facts = Facts(opened(folder))
    assert facts.model is not None
    for finding in found_in(folder).found:
        if finding.impact_ns is not None and finding.least_ns is not None:
            assert 0 <= finding.least_ns <= finding.impact_ns <= facts.model.step_ns, finding.id
