"""`tracetui try -- python SCRIPT`: which changes fit, what becomes of times and results, what is printed; no torch."""

from __future__ import annotations

import json
import math
import statistics
import sys
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import pytest

from tracetui.app.cli.commands import prove as words
from tracetui.app.cli.commands.prove import lines_of
from tracetui.app.cli.main import main
from tracetui.app.cli.values import duration
from tracetui.app.reports.layout import WIDTH, Layout
from tracetui.collectors import proving, trying
from tracetui.collectors.child import turns
from tracetui.collectors.child.changes import BY_NAME, CHANGES, copies_to_gpu
from tracetui.collectors.child.hand import Hand
from tracetui.collectors.child.outside import when_imported
from tracetui.parsers.runs import proofs
from tracetui.parsers.runs.proofs import Claim

MS = 1_000_000
LOSSES, MOVED = [2.0, 1.5, 1.0], [0.1, -0.2, 0.2]
FACTS = {
    "steps": 3, "cuda": True, "blocking": False, "uncached": False, "attention_off": [], "anomaly": False,
    "deterministic": False, "benchmark": False, "precision": "high", "convolutions": False, "images_nchw": False,
    "modules": 0, "compiled": False, "fp32": False, "autocast": False, "seeded": False, "calls": {}, "loaders": [],
    "optimizers": [], "threads": 4, "cores": 4, "epsilon": 1e-7,
}  # fmt: skip
LOADER = {"workers": 64, "batch": None, "pinned": True, "persistent": True, "can_share": True}
ADAM = {"kind": "Adam", "fused": True, "foreach": None, "can_fuse": True}


def turn(ms, losses=(), moved=(), memory=1 << 30, facts=FACTS):
    results = {"what": "losses", "numbers": list(losses or LOSSES), "moved": list(moved or MOVED)}
    return trying.Turn([round(ms * MS)] * 5, [MS] * 5, results, memory, facts)


class Program(trying.Trying):
    """Answers instead of a process: by the names of the changes, a turn or what goes wrong; switches nothing."""

    def __init__(self, answers, **options):
        request = trying.TryRequest(Path(), (), command=("python", "x.py"), device="cpu", **{"rounds": 3, **options})
        super().__init__(request, lambda _: None, lambda _: None)
        self.answers, self.asked = answers, []

    def _can_switch(self, change):
        return False

    def _turn(self, names, *, learns=False, shake=0.0, ends=False):
        self.asked.append("shaken" if shake else "+".join(names))
        self._took[names] = 0.0
        found = self.answers["shaken" if shake else "+".join(names)]
        if isinstance(found, BaseException):
            raise found
        return replace(found, names=names)


def ran(answers, **options):
    program = Program(
        {
            "": turn(10, facts={**FACTS, "modules": 1}),
            "shaken": turn(10, [2.001, 1.5, 1.0], [0.1, -0.2, 0.201]),
            **answers,
        },
        names=tuple(name for name in answers if name in BY_NAME),
        **options,
    )
    program.run()
    return program


def by_name(program):
    return {"+".join(proof["changes"]): proof for proof in program.proofs()}


# --- which changes fit


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({"blocking": True}, "async_launches"),
        ({"uncached": True}, "caching_allocator"),
        ({"attention_off": ["flash"]}, "attention"),
        ({"calls": {"sdpa_kernel": 12}}, "attention"),
        ({"loaders": [{**LOADER, "batch": 8}]}, "batch"),
        ({"anomaly": True}, "no_anomaly"),
        ({"deterministic": True}, "not_deterministic"),
        ({"calls": {"synchronize": 2}}, "no_synchronize"),
        ({"calls": {"empty_cache": 3}}, "no_empty_cache"),
        ({"calls": {"gc_collect": 3}}, "no_gc_collect"),
        ({"calls": {"checkpoint": 24}}, "no_checkpoints"),
        ({"loaders": [{**LOADER, "workers": 0}]}, "workers"),
        ({"loaders": [{**LOADER, "persistent": False}] * 2}, "persistent_workers"),
        ({"loaders": [{**LOADER, "pinned": False}]}, "pinned"),
        ({"calls": {"pinned_blocking": 3}}, "non_blocking"),
        ({"optimizers": [{**ADAM, "fused": False}]}, "fused_optimizer"),
        ({"optimizers": [{**ADAM, "fused": False, "foreach": False, "can_fuse": False}]}, "foreach_optimizer"),
        ({"calls": {"clip_single": 3}}, "clip_foreach"),
        ({"calls": {"zero_grad_kept": 3}}, "set_to_none"),
        ({"threads": 1}, "threads"),
        ({"convolutions": True}, "cudnn_benchmark"),
        ({"images_nchw": True}, "channels_last"),
        ({"gc_percent": 3.0}, "gc_frozen"),
        ({"fp32": True, "precision": "highest"}, "tf32"),
        ({"fp32": True, "modules": 1, "compiled": True}, "bf16"),
    ],
)
def test_a_change_fits_what_the_first_steps_did_and_nothing_else(facts, name):
    assert not [change.name for change in CHANGES if change.fits(FACTS)]
    assert [change.name for change in CHANGES if change.fits({**FACTS, **facts})] == [name]


def test_what_is_not_compiled_may_be_and_graphs_need_a_gpu():
    fits = {change.name for change in CHANGES if change.fits({**FACTS, "modules": 1})}
    assert fits == {"compile", "compile_graphs"}
    assert not BY_NAME["compile_graphs"].fits({**FACTS, "modules": 1, "cuda": False})


def test_a_call_that_is_not_made_in_each_step_is_left_alone():
    assert not BY_NAME["no_empty_cache"].fits({**FACTS, "calls": {"empty_cache": 1}})


def test_every_change_names_rules_that_there_are():
    from tracetui.analysis.findings.catalogue import all_rules

    assert not {rule for change in CHANGES for rule in change.rules} - all_rules().keys()
    assert len(BY_NAME) == len(CHANGES)


def test_every_change_is_documented():
    text = (Path(__file__).parent.parent / "docs" / "prove.md").read_text()
    assert not [change.name for change in CHANGES if f"`{change.name}`" not in text]


def test_what_a_finding_promises_most_comes_first():
    claims = {"tf32": (Claim("F1", 5e6),), "workers": (Claim("S5", 9e6),)}
    program = Program({}, names=("no_anomaly", "workers", "tf32"), claims=claims)
    assert [change.name for change in program.chosen()] == ["workers", "tf32", "no_anomaly"]


# --- turns


def test_good_changes_are_put_together_and_those_that_compute_something_else_stand_apart():
    program = ran(
        {
            "no_checkpoints": turn(8), "fused_optimizer": turn(9), "tf32": turn(5, [2.1, 1.5, 1.0]),
            "set_to_none": turn(9.99), "no_checkpoints+fused_optimizer": turn(7.2),
        }
    )  # fmt: skip
    found = by_name(program)
    assert found["no_checkpoints+fused_optimizer"]["gain_ns"] == pytest.approx(2.8 * MS)
    assert found["no_checkpoints+fused_optimizer"]["rounds"] == 3
    assert found["tf32"]["compared"]["alike"] == "differ"
    assert found["set_to_none"]["rounds"] == 1  # no gain, no other round
    assert found["no_checkpoints"]["write"] == [BY_NAME["no_checkpoints"].write]
    assert program.asked.count("set_to_none") == 1


def test_a_change_that_computes_something_else_joins_on_request():
    answers = {
        "no_checkpoints": turn(8),
        "tf32": turn(5, [2.1, 1.5, 1.0]),
        "no_checkpoints+tf32": turn(4, [2.1, 1.5, 1]),
    }
    assert ran(answers).together is None
    joined = ran(answers, join=("tf32",)).together
    assert joined is not None
    assert joined.names == ("no_checkpoints", "tf32")


def test_beside_a_change_that_halves_the_step_those_are_tried_that_gained_nothing_alone():
    program = ran({"no_gc_collect": turn(3), "set_to_none": turn(9.95), "no_gc_collect+set_to_none": turn(2.5)})
    assert program.together is not None
    assert program.together.names == ("no_gc_collect", "set_to_none")
    assert len(program.together.turns) == 3


def test_workers_whose_samples_are_drawn_anew_join_and_the_rest_must_keep_what_they_yield():
    drawn, other = [1.9, 1.4, 1.1], [1.0, 1.0, 1.0]
    answers = {"workers": turn(8, drawn), "set_to_none": turn(9), "workers+set_to_none": turn(7, drawn)}
    program = ran(answers)
    assert by_name(program)["workers"]["compared"]["alike"] == "differ"
    assert program.together is not None
    assert program.together.names == ("workers", "set_to_none")
    assert ran({**answers, "workers+set_to_none": turn(7, other)}).together is None


def test_what_was_not_put_together_in_time_is_said():
    class Ends(Program):
        def _turn(self, names, **how):
            if len(names) > 1:
                raise trying.Stopped
            return super()._turn(names, **how)

    program = Ends(
        {"": turn(10), "set_to_none": turn(8), "no_gc_collect": turn(9)}, names=("set_to_none", "no_gc_collect")
    )
    program.run()
    text = " ".join(" ".join(words.table(program, program.proofs(), Layout())).split())
    titles = ", ".join(BY_NAME[name].title for name in ("no_gc_collect", "set_to_none"))
    assert f"Not measured together, as the time was used up: {titles}." in text


def test_of_one_kind_only_the_best_is_put_together():
    program = ran({"compile": turn(8), "compile_graphs": turn(5)})
    assert program.together is None
    assert not [names for names in program.asked if "compile+" in names]


def test_a_change_that_fails_costs_nothing_else():
    program = ran({"no_checkpoints": proving.NotMeasured("no memory"), "fused_optimizer": turn(8)})
    found = by_name(program)
    assert found["no_checkpoints"]["explanation"] == "no memory"
    assert "gain_ns" not in found["no_checkpoints"]
    assert found["fused_optimizer"]["rounds"] == 3
    assert program.asked.count("no_checkpoints") == 1


def test_a_program_that_fails_once_as_it_was_ends_the_rounds_and_loses_nothing():
    class FailsAtTheThird(Program):
        def _turn(self, names, **how):
            if not names and not how and self.asked.count("") == 3:
                raise proving.NotMeasured("no more data")
            return super()._turn(names, **how)

    program = FailsAtTheThird({"": turn(10), "no_checkpoints": turn(8)}, names=("no_checkpoints",))
    program.run()
    assert by_name(program)["no_checkpoints"]["gain_ns"] == pytest.approx(2 * MS)


def test_what_was_measured_until_ctrl_c_is_kept():
    program = Program(
        {"": turn(10), "no_checkpoints": turn(8), "fused_optimizer": KeyboardInterrupt()},
        names=("no_checkpoints", "fused_optimizer"),
    )
    with pytest.raises(KeyboardInterrupt):
        program.run()
    assert list(by_name(program)) == ["no_checkpoints"]
    assert program.untried == ["fused_optimizer"]


def test_the_first_round_leaves_time_for_others_and_says_what_it_left_out():
    program = ran({"no_checkpoints": turn(8), "fused_optimizer": turn(9)}, budget_s=-1.0)
    assert program.untried == ["no_checkpoints", "fused_optimizer"]
    assert program.proofs() == []


def test_a_step_that_becomes_a_small_part_is_sure_however_the_whole_varies():
    program = ran({"no_gc_collect": turn(4)})
    (row,) = program.rows
    row.turns = [(turn(157), turn(3.7)), (turn(250), turn(3.9)), (turn(160), turn(3.8))]
    known = program.figures_of(row)
    assert 0.9 * known["step_ns"] < known["low_ns"] <= known["gain_ns"] <= known["high_ns"] < known["step_ns"]


def test_few_rounds_take_their_interval_from_all_variants():
    program = ran({"no_checkpoints": turn(8), "fused_optimizer": turn(9), "no_checkpoints+fused_optimizer": turn(9)})
    program.together = None
    first, second = program.rows
    program.originals[:] = [turn(10), turn(10.4), turn(9.6)]
    first.turns, second.turns = [(turn(10), turn(8))], [(turn(10), turn(9)), (turn(10), turn(9.2))]
    known = program.figures_of(first)
    scatter = statistics.pvariance([math.log(ms) for ms in (10, 10.4, 9.6)]) * 3 + math.log(9.2 / 9) ** 2 / 2
    wide = 3.1824 * math.sqrt(scatter / 3 * 2)  # of 2 + 1 degrees of freedom
    assert known["gain_ns"] == pytest.approx(2 * MS)
    assert known["low_ns"] == pytest.approx(10 * MS * (1 - 0.8 * math.exp(wide)))
    program.originals[:], second.turns = [turn(10), turn(11)], []
    assert program.figures_of(first)["low_ns"] is None, "two numbers tell no interval"


@pytest.mark.parametrize(
    ("loaders", "first_steps", "seconds", "switched_s"),
    [([], 3, 2.0, 1.0), ([0], 3, 4.0, 1.0), ([4], 5, 4.0, 2.0), ([40], 16, 8.0, 8.0)],
)
def test_a_loader_is_timed_over_whole_rounds_of_its_workers(monkeypatch, loaders, first_steps, seconds, switched_s):
    monkeypatch.setattr(trying, "workers", lambda: 8)
    facts = {**FACTS, "loaders": [{**LOADER, "workers": workers} for workers in loaders]}
    program = Program({"": turn(250, facts=facts)}, names=("no_anomaly",), budget_s=-1.0)
    program.run()
    spec = program._spec(Path(), names=(), learns=False, shake=0.0)
    assert (spec["outside"]["first_steps"], spec["block_s"]) == (first_steps, seconds)
    spec = program._spec(Path(), names=(), switched=("tf32",))
    assert spec["turns"]["block_s"] == switched_s, "switching changes no loader"


# --- turns in one process


class Switching(Program):
    """Answers for processes with switched changes too: what each of them told, in order."""

    def __init__(self, answers, switched, **options):
        super().__init__(answers, **options)
        self.switched, self.specs = list(switched), []

    def _can_switch(self, change):
        return trying.Trying._can_switch(self, change)

    def _run(self, child, make):
        self.specs.append(make(Path()))
        child.result, problem = self.switched.pop(0) if self.switched else (told((None, 10)), None)
        if problem is not None:
            raise problem
        return child.result


def told(*blocks, switched=None):
    """What a process with turns reports: of each the change, None as it was, the ms of its steps, what stayed on."""
    ns = [
        {
            "names": name.split("+") if name else [],
            "step_ns": [round(ms * MS)] * 5 if ms else [],
            "host_ns": [MS] * 5,
            "beside": beside,
        }
        for name, ms, *beside in blocks
    ]
    turns = {"blocks": [{**block, "memory_bytes": 1 << 30} for block in ns], "switched": switched}
    results = {"what": "losses", "numbers": LOSSES, "moved": MOVED}
    return {"measurement": {"turns": turns}, "outside": {"facts": FACTS, "results": results}}


def in_one(answers, switched, names, kept=None, **options):
    learned = turn(10, facts={**FACTS, "modules": 1, "optimizers": [ADAM]})
    program = Switching({"": learned, "shaken": turn(10), **answers}, switched, names=names, **options)
    if kept is not None:
        kept.append(program)
    program.run()
    return program


def test_what_can_be_switched_takes_turns_in_one_process_and_tells_results_in_its_own():
    blocks = [(None, 10), ("tf32", 5), (None, 10.2), ("set_to_none", 10), (None, 10), ("tf32", 5.1), (None, 10)]
    program = in_one(
        {"tf32": turn(5, [2.1, 1.5, 1.0]), "workers": turn(10)}, [(told(*blocks), None)],
        ("set_to_none", "tf32", "workers"), budget_s=30.0,
    )  # fmt: skip
    found = by_name(program)
    assert program.specs[0]["outside"]["switched"] == ["set_to_none", "tf32"]
    assert found["tf32"]["round_ns"] == [10.1 * MS, 10 * MS]
    assert (found["tf32"]["rounds"], found["tf32"]["one_process"]) == (2, True)
    assert found["tf32"]["compared"]["alike"] == "differ"
    assert 0 < found["tf32"]["low_ns"] < found["tf32"]["gain_ns"]
    assert found["set_to_none"]["compared"] is None, "it gained nothing, and nobody looked"
    assert "set_to_none" not in program.asked


def test_results_are_of_what_is_sure_first_and_need_the_program_twice():
    blocks = [(None, 10), ("tf32", 9), (None, 10), ("set_to_none", 8), (None, 10)] * 6
    program = in_one({"tf32": turn(9), "set_to_none": turn(8)}, [(told(*blocks), None)], ("tf32", "set_to_none"))
    assert program.asked[:4] == ["", "set_to_none", "", "tf32"]
    assert by_name(program)["set_to_none"]["compared"]["alike"] == "same"


def test_what_draws_other_numbers_is_compared_by_first_steps_that_draw_the_same():
    class Redraws(Program):
        def _turn(self, names, *, ends=False, **how):
            found = super()._turn(names, ends=ends, **how)
            return turn(found.step_ns / MS, [9.0, 9.0, 9.0]) if "compile" in names and not ends else found

    names = ("compile", "set_to_none")
    answers = {"": turn(10), "compile": turn(6), "set_to_none": turn(9), "set_to_none+compile": turn(5)}
    program = Redraws(answers, names=names)
    program.run()
    assert by_name(program)["compile"]["compared"]["alike"] == "same"
    assert program.together is not None
    assert program.together.names == ("set_to_none", "compile")


def test_a_program_that_becomes_slower_while_changes_take_turns_makes_no_gain_unsure():
    slower = [(None, 10 + 0.5 * turn) for turn in range(20)]
    blocks = [each for before in slower for each in (before, ("set_to_none", 0.9 * (before[1] + 0.25)))]
    program = in_one({"set_to_none": turn(9)}, [(told(*blocks[:9]), None)], ("set_to_none",))
    known = by_name(program)["set_to_none"]
    assert (
        0.03 * known["step_ns"] < known["low_ns"] < known["gain_ns"] == pytest.approx(0.1 * known["step_ns"], rel=0.05)
    )


def test_what_a_switched_change_broke_has_its_turn_in_a_process_and_the_rest_goes_on():
    first = told((None, 10), ("tf32", 5), (None, 10), switched="compile")
    second = told((None, 10), ("set_to_none", 10), (None, 10))
    program = in_one(
        {"compile": turn(6), "tf32": turn(5)},
        [(first, proving.NotMeasured("no compiler")), (second, None)],
        ("tf32", "compile", "set_to_none"),
    )
    assert [spec["outside"]["switched"] for spec in program.specs[:2]] == [
        ["set_to_none", "tf32", "compile"],
        ["set_to_none"],
    ]
    assert {row.names[0]: row.switched for row in program.rows} == {
        "set_to_none": True,
        "tf32": True,
        "compile": False,
    }


def test_what_takes_too_long_to_switch_is_not_begun_again():
    late = proving.NotMeasured("torch.compile had not ended after 9 s", out_of_time=True)
    program = in_one({"tf32": turn(5)}, [(told((None, 10), switched="compile"), late)] * 2, ("compile",))
    assert by_name(program)["compile"]["explanation"] == "torch.compile had not ended after 9 s"
    assert program.asked.count("compile") == 0


def test_time_that_is_up_after_a_turn_is_no_fault_of_the_change_that_had_it():
    late = proving.NotMeasured("as it was had not ended after 9 s", out_of_time=True)
    program = in_one({"tf32": turn(5)}, [(told((None, 10), ("tf32", 5), switched="tf32"), late)], ("tf32",))
    proof = by_name(program)["tf32"]
    assert (proof["explanation"], proof["gain_ns"]) == (None, pytest.approx(5 * MS))


def test_turns_in_one_process_until_ctrl_c_are_kept():
    blocks = (None, 10), ("set_to_none", 8), (None, 10)
    with pytest.raises(KeyboardInterrupt):
        in_one({}, [(told(*blocks, switched="tf32"), KeyboardInterrupt())], ("set_to_none", "tf32"), kept := [])
    (program,) = kept
    assert list(by_name(program)) == ["set_to_none"]
    assert program.untried == ["tf32"]


def test_what_there_was_nothing_of_to_change_is_said():
    program = in_one({}, [(told((None, 10), ("tf32", 0), (None, 10)), None)], ("tf32",))
    assert by_name(program)["tf32"]["explanation"] == "there was nothing to change (TF32)"


def test_what_begins_with_a_program_and_gains_much_comes_first_and_the_others_take_turns_beside_it():
    beside = told((None, 3), ("set_to_none", 2.5), (None, 3), ("clip_foreach", 3), (None, 3))
    program = in_one(
        {"workers": turn(3), "workers+set_to_none": turn(2.5)}, [(beside, None)],
        ("workers", "set_to_none", "clip_foreach"),
    )  # fmt: skip
    assert program.specs[0]["outside"]["changes"] == ["workers"]
    assert program.together is not None
    assert program.together.names == ("workers", "set_to_none")
    assert "workers+clip_foreach" not in program.asked
    proof = by_name(program)["set_to_none"]
    assert (proof["beside"], proof["step_ns"]) == (["loader with workers"], 3 * MS)
    assert proof["compared"] is None
    text = "\n".join(words.table(program, program.proofs(), Layout()))
    assert f"+ {BY_NAME['set_to_none'].title[:12]}" in text
    assert "+: beside loader with workers; its gain is of the step with that." in " ".join(text.split())


def test_what_stayed_on_in_one_process_is_put_together_with_what_gained_beside_it():
    alone = [(None, 10), ("bf16", 5), (None, 10), ("compile", 9.9), (None, 10), ("set_to_none", 10), (None, 10)]
    beside = [
        (None, 5, "bf16"),
        ("compile", 2, "bf16"),
        (None, 5, "bf16"),
        ("set_to_none", 5, "bf16"),
        (None, 5, "bf16"),
    ]
    program = in_one(
        {"compile": turn(10), "bf16": turn(5, [3.0, 3.0, 3.0]), "bf16+compile": turn(2, [3.0, 3.0, 3.0])},
        [(told(*alone, *beside * 3), None)], ("bf16", "compile", "set_to_none"), join=("bf16",),
    )  # fmt: skip
    assert program.specs[0]["turns"]["joins"] == ["set_to_none", "bf16", "compile"]
    rows = [(row.names, row.beside, round(row.gain_percent)) for row in program.rows]
    assert rows == [
        (("set_to_none",), (), 0), (("bf16",), (), 50), (("compile",), (), 1),
        (("compile",), ("bf16",), 60), (("set_to_none",), ("bf16",), 0),
    ]  # fmt: skip
    assert program.together is not None
    assert program.together.names == ("bf16", "compile")


def test_a_change_that_gains_much_stays_on_and_what_it_hid_shows_beside_it(monkeypatch):
    on = {name: Hand(on=False) for name in ("tf32", "bf16", "compile", "clip_foreach")}
    for hand in on.values():
        hand.keep_set(hand.did)

    def step_ms():
        half = 0.5 if on["bf16"].on else 1.0
        hidden = 0.7 if on["compile"].on and on["bf16"].on else 1.0
        return 100 * half * hidden * (0.98 if on["clip_foreach"].on else 1.0) * (0.6 if on["tf32"].on else 1.0)

    class Marks(turns.Marks):
        def step_ns(self):
            return [step_ms()] * self.steps

    monkeypatch.setattr(turns, "Marks", Marks)
    spec = {
        "rounds": 3, "worth_percent": 1.0, "beside_percent": 20.0, "joins": ["bf16", "compile", "clip_foreach"],
        "settle_s": 0.0, "block_s": 0.0, "seconds": 60.0,
    }  # fmt: skip
    outside = SimpleNamespace(switches=on, modules=[])
    progress = SimpleNamespace(say=lambda *_: None)
    process = turns.Turns(spec, outside, "cpu", progress, lambda: None)
    for _ in process.follow():
        pass
    blocks = process.told()["blocks"]
    every = "bf16+compile+clip_foreach"
    names = groupby(blocks, key=lambda b: b["beside"])
    assert [(beside, ["+".join(b["names"]) for b in group]) for beside, group in names] == [
        ([], ["", "tf32", "", "bf16", "", "compile", "", "clip_foreach", "", "tf32", "", "bf16", "", "clip_foreach",
              ""]),
        (["bf16"], ["", "compile", "", "clip_foreach", "", "compile", "", "clip_foreach", ""]),
        (["bf16", "compile"], ["", "clip_foreach", "", "clip_foreach", "", "clip_foreach", ""]),
        ([], ["", every, "", every, ""]),
    ]  # fmt: skip
    assert [round(b["step_ns"][0]) for b in blocks[-8:]] == [35, 34, 35, 100, 34, 100, 34, 100]


def test_what_gains_nothing_together_is_not_attempted_again():
    alone = [(None, 10), ("bf16", 5), (None, 10), ("compile", 7), (None, 10)]
    beside = [(None, 5, "bf16"), ("compile", 4, "bf16"), (None, 5, "bf16")]
    program = in_one(
        {"bf16": turn(5), "compile": turn(7), "bf16+compile": turn(5)},
        [(told(*alone, *beside * 3), None)], ("bf16", "compile"), join=("bf16",), rounds=1,
    )  # fmt: skip
    assert program.together is None
    assert program.asked.count("bf16+compile") == 1


def test_what_gained_in_one_process_is_put_together_there_and_needs_none_of_its_own():
    blocks = [
        (None, 10), ("bf16", 5), (None, 10), ("compile", 10), (None, 10),
        (None, 5, "bf16"), ("compile", 4, "bf16"), (None, 5, "bf16"),
        (None, 10.2), ("bf16+compile", 4), (None, 10), ("bf16+compile", 4.2), (None, 10),
    ]  # fmt: skip
    program = in_one({"bf16": turn(5)}, [(told(*blocks), None)], ("bf16", "compile"), join=("bf16",))
    assert program.together is not None
    assert program.together.names == ("bf16", "compile")
    assert program.asked.count("bf16+compile") == 0  # results differ in any case
    proof = program.proofs()[-1]
    assert proof["changes"] == ["bf16", "compile"]
    assert proof["round_ns"] == [10.1 * MS, 10 * MS]
    assert (proof["changed_ns"], proof["one_process"]) == (pytest.approx(4.1 * MS), True)


def test_what_was_together_in_one_process_stays_a_row_where_more_was_put_together_in_processes():
    blocks = [
        (None, 10), ("bf16", 5), (None, 10), ("compile", 10), (None, 10),
        (None, 5, "bf16"), ("compile", 4, "bf16"), (None, 5, "bf16"),
        (None, 10.2), ("bf16+compile", 4), (None, 10), ("bf16+compile", 4.2), (None, 10),
    ]  # fmt: skip
    answers = {"workers": turn(9), "workers+bf16+compile": turn(3), "bf16": turn(5)}
    program = in_one(answers, [(told(*blocks), None)], ("workers", "bf16", "compile"), join=("bf16",))
    assert program.together is not None
    last = [(proof["changes"], proof["one_process"]) for proof in program.proofs()[-2:]]
    assert last == [(["bf16", "compile"], True), (["workers", "bf16", "compile"], False)]


def test_what_gained_beside_a_change_that_its_process_began_with_is_put_together_with_that():
    blocks = [
        (None, 4), ("set_to_none", 3), (None, 4),
        (None, 3, "set_to_none"), ("foreach_optimizer", 2, "set_to_none"), (None, 3, "set_to_none"),
        (None, 4), ("set_to_none+foreach_optimizer", 2), (None, 4),
    ]  # fmt: skip
    names = ("workers", "set_to_none", "foreach_optimizer")
    answers = {"workers": turn(4), "workers+foreach_optimizer+set_to_none": turn(2), "set_to_none": turn(9)}
    program = in_one({**answers, "foreach_optimizer": turn(9)}, [(told(*blocks), None)], names, rounds=1)
    assert program.together is not None
    assert set(program.together.names) == set(names)
    proof = program.proofs()[-1]
    assert (proof["step_ns"], proof["changed_ns"], proof["one_process"]) == (10 * MS, 2 * MS, False)
    assert proof["compared"]["alike"] == "same"  # of a process that began with all of them


def test_without_an_optimizer_compiling_is_no_switch():
    program = Switching({}, [])
    program.facts = FACTS
    assert not program._can_switch(BY_NAME["compile"])
    assert program._can_switch(BY_NAME["tf32"])
    assert not program._can_switch(BY_NAME["workers"])


def test_a_change_is_made_when_it_is_switched_on_and_taken_back_when_off():
    class Settings:
        fast = False

        def call(self):
            return "plain"

    settings, hand = Settings(), Hand(on=False)

    def around(original, args, named):
        hand.did()
        return "changed"

    hand.replace(Settings, "call", around)
    hand.keep_set(lambda: hand.put(settings, "fast", True))
    hand.at_first_call(lambda module: hand.put(module, "fast", True))
    other = Settings()
    assert (settings.call(), settings.fast, hand.count) == ("plain", False, 0)
    hand.switch_on([other])
    assert (settings.call(), settings.fast, other.fast, hand.count) == ("changed", True, True, 3)
    hand.switch_off()
    assert (settings.call(), settings.fast, other.fast) == ("plain", False, False)
    assert "fast" not in vars(settings)


# --- results


@pytest.mark.parametrize(
    ("losses", "moved", "alike"),
    [
        (LOSSES, MOVED, "same"),
        ([2.002, 1.5, 1.0], MOVED, "rounding"),
        ([2.01, 1.5, 1.0], MOVED, "differ"),
        (LOSSES, [0.1, -0.2, 0.21], "differ"),  # the same losses do not make it the same
        ([math.nan, 1.5, 1.0], MOVED, "differ"),
        (LOSSES[:2], MOVED, "unknown"),
        (LOSSES, MOVED[:2], "unknown"),
    ],
)
def test_results_are_the_same_only_as_far_as_unchanged_runs_and_rounding_allow(losses, moved, alike):
    program = ran({"no_checkpoints": turn(8, losses, moved)})
    assert by_name(program)["no_checkpoints"]["compared"]["alike"] == alike


def test_where_unchanged_runs_differ_more_than_rounding_explains_nothing_is_called_the_same():
    program = ran({"no_checkpoints": turn(8)})
    program.originals[1:] = [turn(10, [2.5, 1.5, 1.0])]
    assert program.results_of(program.rows[0])["alike"] == "unknown"


def test_without_numbers_there_is_nothing_to_compare():
    assert trying.distance({"what": "losses", "numbers": [], "moved": []}, turn(1).results) is None


# --- what is kept and shown


def test_proofs_are_read_as_written_each_change_by_itself(tmp_path):
    claims = {"no_checkpoints": (Claim("S30", 3.0 * MS, 30.0),)}
    made = ran({"no_checkpoints": turn(8, memory=2 << 30), "no_anomaly": turn(10)}, claims=claims).proofs()
    proving.add(tmp_path, made)
    proving.add(tmp_path, made[:1])
    read = {proof.changes: proof for proof in proofs.load(tmp_path)[0]}
    assert read.keys() == {("no_checkpoints",), ("no_anomaly",)}
    proof = read["no_checkpoints",]
    assert (proof.claims[0].id, proof.command, proof.changed_memory_bytes) == ("S30", ("python", "x.py"), 2 << 30)
    (line,) = lines_of(next(one for one in made if one["claims"]))
    assert line.startswith("S30: 2.000 ms (2.000 ms to 2.000 ms) of at most 3.000 ms per step, by checkpointing off")
    assert line.endswith("results are the same")


def test_the_table_tells_all_in_80_columns_and_says_what_to_write():
    program = ran(
        {
            "no_checkpoints": turn(8), "fused_optimizer": turn(9), "compile": proving.NotMeasured("no compiler " * 9),
            "no_checkpoints+fused_optimizer": turn(7),
        }
    )  # fmt: skip
    program.untried = ["channels_last"]
    measured = program.proofs()
    program.rows.append(trying.Row(("tf32",), turns=[(turn(10), turn(6))] * 3))
    lines = words.table(program, measured, Layout())
    assert max(map(len, lines)) <= WIDTH
    assert "TF32 computes something else: --join tf32 puts it together with the others." in lines
    text = "\n".join(lines)
    assert [line[2:10] for line in lines[2:6]] == ["as it wa", "checkpoi", "optimize", "together"]
    assert "Together: checkpointing off, optimizer fused." in text
    assert "+20.0" in text
    assert "torch.optim.NAME(…, fused=True)" in text
    assert "- torch.compile: no compiler" in text
    assert "Not tried: channels_last." in text


# --- the command line


@pytest.mark.parametrize(("text", "seconds"), [("10m", 600), ("90s", 90), ("1.5h", 5400), ("600", 600)])
def test_a_budget_has_a_unit_or_is_in_seconds(text, seconds):
    assert duration(text) == seconds


def test_what_can_not_be_tried_is_refused_with_a_reason(capsys):
    assert main(["try"]) == 2
    assert "try takes a program after `--`" in capsys.readouterr().err
    assert main(["try", "--change", "magic", "--", sys.executable, "x.py"]) == 2
    assert "magic: no such change; there are async_launches" in capsys.readouterr().err
    assert main(["try", "--", "torchrun", "--nproc-per-node", "2", "x.py"]) == 2
    assert "ranks" in capsys.readouterr().err


def test_a_dry_run_lists_the_changes_also_by_the_old_word(capsys):
    assert main(["prove", "--dry-run", "--change", "tf32", "--", sys.executable, "x.py"]) == 0
    told = capsys.readouterr()
    assert 'tf32: torch.set_float32_matmul_precision("high")' in told.out
    assert "tracetui prove is now: tracetui try" in told.err


def test_json_has_the_proofs_and_what_was_left_out(monkeypatch, capsys, tmp_path):
    program = ran({"no_checkpoints": turn(8)})
    monkeypatch.setattr(trying, "Trying", lambda *_: program)
    monkeypatch.setattr("tracetui.collectors.requirements.check_modules", lambda *_: None)
    arguments = ["try", "--format", "json", "--output", str(tmp_path), "--", sys.executable, "x.py"]
    assert main(arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["untried"]) == ("tracetui.proofs/1", [])
    assert told["proofs"][0]["changes"] == ["no_checkpoints"]
    assert proofs.load(tmp_path)[0][0].gain_ns == pytest.approx(2 * MS)


# --- in the program's process


@pytest.mark.parametrize(
    ("at", "method", "args", "named", "copies"),
    [
        ("cpu", "to", ("cuda",), {}, True),
        ("cpu", "to", (SimpleNamespace(type="cuda"),), {}, True),
        ("cpu", "to", (SimpleNamespace(device=SimpleNamespace(type="cuda")),), {}, True),
        ("cpu", "to", (), {"device": 1}, True),
        ("cpu", "to", ("cpu",), {}, False),
        ("cpu", "to", (True,), {}, False),
        ("cpu", "cuda", (), {}, True),
        ("cuda", "to", ("cuda",), {}, False),
    ],
)
def test_only_copies_from_the_host_to_a_gpu_may_go_on_without_the_host(at, method, args, named, copies):
    tensor, function = SimpleNamespace(device=SimpleNamespace(type=at)), SimpleNamespace(__name__=method)
    assert copies_to_gpu(function, (tensor, *args), named) is copies


def test_something_is_done_once_a_module_has_been_imported(tmp_path, monkeypatch):
    (tmp_path / "made_up_torch.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen = []
    when_imported("made_up_torch", lambda: seen.append(sys.modules["made_up_torch"].value))
    assert seen == []
    import made_up_torch  # noqa: F401

    assert seen == [1]
    when_imported("made_up_torch", lambda: seen.append(2))
    assert seen == [1, 2]
