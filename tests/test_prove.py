"""`tracetui try`: which changes it takes, what it makes of the times, how that is kept and shown; without torch."""

import json
import random
import shutil
import statistics
from argparse import Namespace
from functools import cache

import pytest
from sample_runs import VIM, changeable

from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.engine import findings_of
from tracetui.analysis.report.findings import finding_row, proof_row
from tracetui.analysis.scope import Scope
from tracetui.app.cli.commands.prove import base_command, check_program, trials_of
from tracetui.app.cli.main import main
from tracetui.app.reports.finding_words import parts, proof_text
from tracetui.app.text.exit_codes import UsageError
from tracetui.collectors import proving
from tracetui.collectors.request import ProfileError
from tracetui.collectors.scrub import scrub
from tracetui.parsers import open_path
from tracetui.parsers.runs import proofs
from tracetui.parsers.runs.manifest import Identity, RunManifest

MS = 1_000_000


@cache
def vim_facts():
    run = open_path(VIM)
    return Facts(run, run.main, Scope())


@cache
def vim_findings():
    return findings_of(vim_facts())


def timed(*rounds, samples=4, numbers=None):
    checked = None if numbers is None else {"what": "outputs", "numbers": numbers}
    return proving.Timed([[ms * MS] for ms in rounds], [[MS] for _ in rounds], samples, checked)


def proof(before, after, *claims, **more):
    made = {"change": "--attention fused", "options": {"attention": "fused"}, "claims": list(claims), "device": "GPU"}
    return {**made, **proving.figures(before, after, should_agree=True), **more}


def read(folder, *made):
    proving.add(folder, made)
    return proofs.load(folder)[0]


# --- the interval


@pytest.mark.parametrize(("rounds", "below"), [(6, 0), (8, 0), (9, 1), (12, 2), (20, 5)])
def test_the_interval_of_a_median_leaves_as_many_differences_out_as_the_table_of_the_sign_test(rounds, below):
    assert proving.rank(rounds) == below


@pytest.mark.parametrize("rounds", [2, 3, 5, 6, 12])
def test_the_interval_holds_the_true_gain_in_95_of_100_experiments(rounds):
    source = random.Random(rounds)
    hits = 0
    for _ in range(600):
        heat = [source.gauss(0, 5) for _ in range(rounds)]  # slows both turns of a round down
        before = [100 + warm + source.gauss(0, 2) for warm in heat]
        after = [90 + warm + source.gauss(0, 2) for warm in heat]
        found = proving.gain_of(before, after)
        hits += found.low <= 10 <= found.high
    assert hits / 600 > 0.925


def test_one_disturbed_round_of_twelve_does_not_hide_a_gain():
    found = proving.gain_of([10.0] * 11 + [90.0], [8.0 + n / 100 for n in range(12)])
    assert 1.8 < found.low <= found.value <= found.high < 2.1
    assert proving.gain_of([3.0], [1.0]) == proving.Gain(2.0, None, None)


# --- the numbers of a proof


def test_a_larger_batch_is_compared_per_sample():
    found = proving.figures(timed(*[10] * 6), timed(*[20] * 6, samples=16), should_agree=True)
    assert (found["batch_factor"], found["step_ns"], found["changed_ns"]) == (4.0, 10 * MS, 5 * MS)
    assert (found["gain_ns"], found["low_ns"], found["high_ns"]) == (5 * MS, 5 * MS, 5 * MS)
    assert found["compared"] is None


def test_steps_that_one_side_lacks_are_no_proof():
    with pytest.raises(proving.NotMeasured):
        proving.figures(timed(), timed(1), should_agree=True)


def test_the_largest_difference_of_the_results_is_kept():
    found = proving.figures(timed(1, numbers=[1.0, -4.0]), timed(1, numbers=[1.5, -4.0]), should_agree=True)
    assert found["compared"] == {
        "what": "outputs", "numbers": 2, "largest": 0.5, "scale": 4.0, "should_agree": True,
    }  # fmt: skip
    odd = proving.compared({"what": "losses", "numbers": [1.0]}, {"what": "losses", "numbers": [float("nan")]},
                           should_agree=True)  # fmt: skip
    assert odd is not None
    assert odd["largest"] is None


# --- what is kept


def test_proofs_are_read_as_written_and_one_of_a_change_replaces_the_earlier(tmp_path):
    first = proof(timed(*[10] * 6), timed(*[7] * 6), {"id": "F6", "bound_ns": 4 * MS, "bound_percent": 40.0})
    (only,) = read(tmp_path, first)
    assert only.measured
    assert (only.gain_ns, only.claims[0].id, only.claims[0].bound_ns) == (3 * MS, "F6", 4 * MS)
    failed = {"change": "--attention fused", "options": {"attention": "fused"}, "explanation": "no memory"}
    (kept,) = read(tmp_path, failed)
    assert kept == only  # a failure takes nothing away
    better = proof(timed(*[10] * 6), timed(*[6] * 6))
    other = {"change": "--compile", "options": {"compile": True}, "explanation": "no compiler"}
    assert [one.gain_ns for one in read(tmp_path, better, other)] == [4 * MS, None]


@pytest.mark.parametrize("text", ["", "[", "[]", '{"schema": "tracetui.run/1", "proofs": [{}]}', '{"proofs": [{}]}'])
def test_a_file_that_is_none_of_ours_proves_nothing(tmp_path, text):
    (tmp_path / proofs.FILE).write_text(text)
    assert proofs.load(tmp_path)[0] == ()
    damaged = '{"schema": "tracetui.proofs/1", "proofs": [{"gain_ns": "much", "change": 3, "rounds": 2}, 7]}'
    (tmp_path / proofs.FILE).write_text(damaged)
    assert [(one.gain_ns, one.change, one.rounds) for one in proofs.load(tmp_path)[0]] == [(None, None, 2)]


def test_a_scrubbed_copy_of_proofs_says_no_command(tmp_path):
    proving.add(tmp_path, [proof(timed(1, 2), timed(1, 1), command=["python", "/home/anna/train.py"], options={})])
    scrub([tmp_path / proofs.FILE], tmp_path / "out")
    text = (
        (tmp_path / "out" / proofs.FILE).read_text() if (tmp_path / "out").is_dir() else (tmp_path / "out").read_text()
    )
    assert "anna" not in text
    assert json.loads(text)["proofs"][0]["gain_ns"] == statistics.fmean([0, MS])


def test_a_folder_that_can_not_be_written_is_said_before_anything_is_measured(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ProfileError, match="--output DIR"):
        proving.check_writable(tmp_path / "file")


# --- what is said


def row(before, after, claim=None, **more):
    made = proof(timed(*before), timed(*after), **more)
    return proof_row(measure_read(made), claim and proofs.Claim(**claim))


def measure_read(made):
    from msgspec import convert

    return convert(made, proofs.Proof)


BOUND = {"id": "F6", "bound_ns": 4.0 * MS, "bound_percent": 40.0}


def test_a_proof_says_its_gain_beside_the_bound():
    text = proof_text(row([10] * 6, [7] * 6, BOUND))
    assert text == "3.000 ms (3.000 ms to 3.000 ms) of at most 4.000 ms per step, by --attention fused"
    nothing = proof_text(row([10, 11] * 6, [11, 10] * 6, BOUND))
    assert nothing.startswith("no gain (-1.000 ms to +1.000 ms) of at most 4.000 ms per step")
    assert proof_text(row([10] * 6, [12] * 6, BOUND)).startswith("2.000 ms slower (2.000 ms to 2.000 ms) of at most")
    assert proof_text(row([10] * 6, [7] * 6)).startswith(
        "3.000 ms (3.000 ms to 3.000 ms) per step (30.0 % of the step)"
    )


def test_a_gain_above_the_bound_is_said_to_be_what_it_is():
    assert "more than the bound of 4.000 ms, which was too low" in proof_text(row([10] * 6, [4] * 6, BOUND))
    also = {**BOUND, "also": "it fuses"}
    assert "per step, more than the 4.000 ms that the finding counts (it fuses)" in proof_text(
        row([10] * 6, [4] * 6, also)
    )
    within = proof_text(row([10] * 6, [4] * 6, {**also, "most_ns": 7.0 * MS}))
    assert "of at most 7.000 ms per step, more than the 4.000 ms that the finding counts (it fuses)" in within
    assert "bound of 5.000 ms, which was too low" in proof_text(row([10] * 6, [4] * 6, {**also, "most_ns": 5.0 * MS}))
    # a step of 10 ms takes 20 here: the 10 ms more may be gained too
    assert [row([20] * 6, [after] * 6, BOUND).exceeds for after in (7, 5)] == [False, True]
    elsewhere = proof_text(row([10] * 6, [4] * 6, BOUND, recorded_on="NVIDIA H200"))
    assert "the recording is of NVIDIA H200" in elsewhere
    assert "too low" not in elsewhere


def test_results_that_should_agree_and_do_not_are_told():
    made = proof(timed(*[2] * 6, numbers=[1.0, 2.0]), timed(*[1] * 6, numbers=[1.0, 3.0]))
    assert "but the outputs differ by at most 1 (50.0 % of the largest): check them" in proof_text(
        proof_row(measure_read(made))
    )


def test_the_finding_shows_what_was_proved_of_it(tmp_path):
    folder = changeable(VIM, tmp_path / "run")
    claim = {"id": "S2", "bound_ns": 90.0 * MS, "bound_percent": 90.0}
    proving.add(folder, [proof(timed(*[100] * 6), timed(*[30] * 6), claim, change="--cuda-graphs")])
    run = open_path(folder, cache=False)
    assert run.warnings == ()
    found = {one.id: one for one in findings_of(Facts(run, run.main, Scope())).found}
    said = dict(parts(finding_row(found["S2"])))
    assert said["Proved"] == "70.00 ms (70.00 ms to 70.00 ms) of at most 90.00 ms per step, by --cuda-graphs"
    assert found["S12"].proofs == ()
    assert [one.id for one in vim_findings().found] == [*found]  # their order stays


# --- which changes


def test_without_findings_all_are_proved_that_have_a_change_each_change_once():
    trials, refused = trials_of(vim_facts(), vim_findings(), (), ())
    assert refused == []
    assert [(trial.change, [claim.id for claim in trial.claims]) for trial in trials] == [
        ("--cuda-graphs", ["S2"]), ("--compile", ["S12", "F11"]), ("--batch 16", ["G5"]),
    ]  # fmt: skip
    bounds = [trial.claims[0].bound_ns or 0 for trial in trials]
    assert bounds == sorted(bounds, reverse=True)
    assert [trial.compares for trial in trials] == [True, True, False]


def test_a_finding_that_was_asked_for_is_proved_with_all_its_changes():
    trials, refused = trials_of(vim_facts(), vim_findings(), ("s2",), ())
    assert [trial.change for trial in trials] == ["--cuda-graphs", "--compile", "--batch 16"]
    assert refused == []


def test_what_can_not_be_proved_says_why_in_a_line():
    _, refused = trials_of(vim_facts(), vim_findings(), ("X9", "F6", "S1", "V8"), ())
    assert refused == [
        "X9: there is no such rule; `tracetui reference rules` lists them",
        "F6: is no finding of this run",
        "S1: was set aside in this run",
        "V8: no option of the run does what it advises",
    ]
    trials, _ = trials_of(vim_facts(), vim_findings(), (), ("dtype=bf16,compile", "batch=8"))
    assert [trial.options for trial in trials] == [{"dtype": "bf16", "compile": True}, {"batch": 8}]
    assert [trial.agrees for trial in trials] == [False, True]
    with pytest.raises(UsageError, match="OPTION=VALUE"):
        trials_of(vim_facts(), vim_findings(), (), ("dtype=",))


def test_the_command_of_a_finding_is_the_run_with_its_first_change():
    for finding in vim_findings().found:
        if finding.changes:
            assert " ".join(finding.changes[0].words) in finding.next_command
    declared = {change.option for rule in all_rules().values() for change in rule.changes}
    assert declared >= {
        "attention",
        "compile",
        "dtype",
        "workers",
        "optimizer",
        "channels_last",
        "cuda_graphs",
        "batch",
    }


def test_a_change_that_does_more_than_its_finding_says_has_a_bound_of_its_own():
    facts, found = vim_facts(), {one.id: one for one in vim_findings().found}
    most = {given.option: given.most_ns(facts) for id in ("S2", "F11") for given in found[id].changes}
    step = facts.model.step_ns
    assert found["S2"].impact_ns < most["cuda_graphs"] < most["compile"] < step
    assert most["batch"] == 0.75 * step
    (trial, *_), _ = trials_of(facts, vim_findings(), ("S2",), ())
    assert trial.claims[0].most_ns == most["cuda_graphs"]


def test_only_arguments_of_the_program_that_was_typed_are_taken_from_the_run():
    def before(*words, typed=("python", "train.py", "--compile"), base=None):
        manifest = RunManifest(identity=Identity(command=("tracetui", "profile", *words)))
        return base_command(manifest, Namespace(base=base), typed)

    assert before("--", "python", "train.py", "--epochs", "1") == ("python", "train.py", "--epochs", "1")
    assert before("mlp", base="python train.py 'a b'") == ("python", "train.py", "a b")
    for words, why in (
        (("--", "python", "other.py"), "another program"),
        (("--", "python", "train.py", "--token", "***"), "masks"),
        (("mlp",), "of a model"),
    ):
        with pytest.raises(UsageError, match=why):
            before(*words)


def test_what_is_no_single_python_program_is_refused():
    for words, why in (("torchrun --nproc-per-node 2 train.py", "many ranks"), ("./train", "python SCRIPT")):
        with pytest.raises(UsageError, match=why):
            check_program(tuple(words.split()))
    check_program(("/opt/bin/python3", "train.py"))


# --- the command


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(capsys):
    assert main(["prove", str(VIM), "S2", "--dry-run", "--rounds", "6"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("S2: --cuda-graphs, 6 rounds of two turns of 150 ms of steps in one process")
    assert "as it was: vim_tiny --batch 4 --img-size 224" in out
    assert not (VIM / proofs.FILE).exists()


def test_what_can_not_be_done_is_wrong_usage(capsys, tmp_path):
    assert main(["prove", str(VIM), "X9"]) == 2
    assert "X9: there is no such rule" in capsys.readouterr().err
    alone = tmp_path / "alone.pt.trace.json.gz"
    shutil.copy(next(VIM.glob("*.pt.trace.json.gz")), alone)
    assert main(["prove", str(alone)]) == 2
    assert "no run.json" in capsys.readouterr().err
    assert main(["prove", str(tmp_path / "none")]) == 1
    assert main(["prove", str(VIM), "--change", "keep=2"]) == 2
    assert "vim_tiny takes no 'keep'" in capsys.readouterr().err


def test_the_child_is_told_both_variants_or_one(tmp_path):
    request = proving.ProveRequest(tmp_path, (), entry="mlp", options={"batch": 4}, rounds=None)
    trial = proving.Trial("--dtype bf16", {"dtype": "bf16"})
    both = proving.child_spec(request, tmp_path, [{"batch": 4}, {"batch": 4, "dtype": "bf16"}], trial)
    assert (both["rounds"], len(both["variants"]), both["check"]) == (proving.ROUNDS, 2, proving.COMPARED)
    alone = proving.child_spec(request, tmp_path, [{"batch": 4}], proving.Trial("--batch 8", {"batch": 8}))
    assert (alone["rounds"], alone["check"]) == (1, 0)
