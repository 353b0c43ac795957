"""The published reports: each is stopped by exactly the rules that refute it."""

import published_cases
from judged import facts, find, fired, fires


def test_vim_on_orin_nano_ran_another_batch(tmp_path):
    found = facts(published_cases.vim_on_orin_nano(tmp_path / "run"))
    assert fired(found) == {"V1"}
    assert "120 samples, not the 4" in fires("V1", found).title
    # the report: almost entirely GPU kernel time, and loss.item() waits for it after each forward pass
    assert found.verdict.kind == "gpu"
    assert "S19" not in {finding.id for finding in find(found).found}


def test_vim_on_orin_nano_was_not_in_its_15_watt_mode(tmp_path):
    found = facts(published_cases.vim_on_orin_nano(tmp_path / "15W", "15W"))
    assert fired(found) == {"V1", "V15"}
    finding = fires("V15", found)
    assert "aten::mul reaches 153" in finding.title
    assert fired(facts(published_cases.vim_on_orin_nano(tmp_path / "25W", "25W"))) == {"V1"}


def test_token_reduction_by_three_copies(tmp_path):
    found = facts(published_cases.token_reduction(tmp_path / "run"))
    assert fired(found) == {"V3", "V4", "V12", "V26"}
    assert "CPU or GPU can't be told" in fires("V26", found).title
    assert "no kind can be ruled out" in fires("V12", found).title
    assert "no conclusion on the rest" in fires("V4", found).title
    alone = facts(tmp_path / "run/ncu.csv")
    assert fired(alone) == {"V4"}
    assert "nothing that computes was measured" in fires("V4", alone).title


def test_token_reduction_over_warm_ups(tmp_path):
    finding = fires("V3", facts(published_cases.token_reduction(tmp_path / "run")))
    assert finding.title.startswith("95.2 % of the GPU time was launched outside")


def test_token_reduction_captured_nothing(tmp_path):
    found = facts(published_cases.token_reduction_capture(tmp_path))
    assert fired(found) == {"V11"}
    assert "cudaProfilerStart" in fires("V11", found).advice


def test_context_lengths_out_of_memory(tmp_path):
    found = facts(published_cases.context_lengths(tmp_path))
    # its kernels are filled in long after their launches, with nothing before them: as if the clock were late
    assert fired(found) == {"V2", "V3", "V12", "V13", "V19"}
    assert fires("V2", found).title == "forward_pass takes 164.6 % of the train_step it is part of"
    said = fires("V13", found)
    assert [item.value for item in said.evidence if item.label.startswith("softmax")] == [0.16]


def test_nothing_rests_on_what_was_refuted(tmp_path):
    """Of an empty capture and of impossible shares no other group of rules concludes anything."""
    for path in (published_cases.token_reduction_capture(tmp_path), published_cases.context_lengths(tmp_path)):
        found = facts(path)
        refuted = {base for id in fired(found) for base in _refutes(id)}
        kept = {finding.id for finding in find(found).found if finding.id[0] != "V"}
        assert not [id for id in kept if refuted.intersection(_rests_on(id))]


def _refutes(id: str) -> tuple[str, ...]:
    from tracetui.analysis.findings.catalogue import all_rules

    return all_rules()[id].refutes


def _rests_on(id: str) -> tuple[str, ...]:
    from tracetui.analysis.findings.catalogue import all_rules

    return all_rules()[id].rests_on
