"""The tab of findings: the evidence, the rows that prove it and the way back, what was set aside."""

import json

import pytest
from sample_runs import FP16, FP32, changeable, linked, recorded
from tui_pilot import lines, opened, press, screen_text, settle, write

from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.finding import Abstention, Evidence, Finding, Findings, Query, Suppressed
from tracetui.app.session.facts import session_findings
from tracetui.app.views.findings import FindingsView


def rows(app) -> list[dict]:
    return app.view.table.view().to_dicts()


async def to_row(app, pilot, column: str, value: str) -> None:
    """Puts the cursor on the row with this value."""
    at = [row[column] for row in rows(app)].index(value)
    await press(pilot, "home", *["down"] * at)


async def test_findings_are_told_by_sign_and_word_and_explained_below():
    async with opened(FP32, tab="findings") as (app, _):
        assert lines(app)[4].startswith(">~ warning   S13   Do less between")
        text = screen_text(app)
        for words in ("Gains  ", "55.2 %)", "Why    ", "Try    "):
            assert words in text
        assert "Enter evidence" in lines(app)[-1]
        assert len(lines(app)) == 24


async def test_enter_leads_to_the_evidence():
    async with opened(FP32, tab="findings") as (app, pilot):
        await press(pilot, "enter")
        assert lines(app)[2].startswith(" Findings › S13 Do less between")
        assert lines(app)[4].startswith(">step ")
        assert "102.9 ms" in lines(app)[4]
        assert "Try    " in screen_text(app)


async def test_enter_on_evidence_leads_to_its_rows_and_esc_back(said):
    small = Evidence("small kernels", 12, "", Query("kernels", "mean<3us"))
    said(Findings((finding("S2"), finding("S12", more_evidence=small))))
    async with opened(FP32, tab="findings") as (app, pilot):
        await press(pilot, "down", "enter", "end")
        assert app.view.table.current["where"] == "Kernels: / mean<3us"
        await press(pilot, "enter")
        assert app.tab == "kernels"
        assert lines(app)[-2].startswith(" / mean<3us ")
        assert "Esc goes back to the finding" in lines(app)[-2]
        assert "of 20 kernels" in lines(app)[-2]
        await press(pilot, "enter")
        assert "Kernels ›" in lines(app)[2]
        await press(pilot, "escape", "escape")
        assert app.tab == "findings"
        assert lines(app)[2].startswith(" Findings › S12")
        assert app.view.table.current["name"] == "small kernels"
        assert app.session.filter == ""
        await press(pilot, "2")
        assert "/20" in lines(app)[2]


async def test_ctrl_o_comes_back_from_anywhere_with_the_filter_that_was_in_force():
    async with opened(FP32, tab="findings", filter="gemm") as (app, pilot):
        assert "gemm" not in lines(app)[-2]
        await press(pilot, "enter", "enter")
        rows = app.tab, app.session.filter
        await press(pilot, "4", "ctrl+o")
        assert (app.tab, app.session.filter) == rows != ("findings", "gemm")
        await press(pilot, "ctrl+o")
        assert app.tab == "findings"
        assert lines(app)[2].startswith(" Findings ›")
        assert app.session.filter == "gemm"
        await press(pilot, "ctrl+o")
        assert lines(app)[2].startswith(" Findings  ")
        await press(pilot, "ctrl+o")
        assert "no earlier place" in lines(app)[-1]
        await press(pilot, "enter")
        await press(pilot, "enter", "8")
        assert app.tab == "findings"
        assert app.session.filter == "gemm"


async def test_esc_in_the_timeline_comes_back_too():
    async with opened(FP32, tab="findings") as (app, pilot):
        await press(pilot, "enter")
        row = next(row for row in rows(app) if row["where"] == "Timeline")
        await to_row(app, pilot, "name", row["name"])
        await press(pilot, "enter")
        assert app.tab == "timeline"
        await press(pilot, "escape")
        assert app.tab == "findings"


async def test_every_query_leads_to_rows():
    async with opened(FP32, tab="findings", size=(120, 40)) as (app, pilot):
        found = session_findings(app.session, app.shell.log_error)
        queries = {item.query for each in found.found for item in each.evidence if item.query is not None}
        assert len(queries) > 3
        for query in sorted(queries, key=str):
            app.navigation.show_rows(query)
            await settle(pilot)
            where = (query, lines(app)[-1])
            assert app.tab == query.tab.partition(":")[0], where
            assert "is not among" not in lines(app)[-1], where
            assert not lines(app)[-1].startswith(" filter:"), where
            if app.tab not in ("timeline", "memory"):
                assert app.view.table.height_of_view, where
            assert app.navigation.come_back(), where
            await settle(pilot)


def finding(id: str, severity: str = "warning", more_evidence: Evidence | None = None, **more) -> Finding:
    evidence = (
        Evidence("kernel time", 1_500_000.0, "ns", Query("kernels:copies", row="[CUDA memcpy Host-to-Device]")),
        Evidence("calls", 12, "", Query("host:API calls", "launch")),
        Evidence("flops", 2.5e12, "FLOP"),
        Evidence("says", "yes\x1b[31m", ""),
        Evidence("gone", 1, "%", Query("kernels", row="nothing_like_it")),
    )
    evidence += (more_evidence,) if more_evidence is not None else ()
    given = {"formula": "1 of 2 = 50 %", "threshold": "above 10 %", "advice": "mend it", "title": f"{id} is so", **more}
    return Finding(severity, evidence=evidence, id=id, **given)


@pytest.fixture
def said(monkeypatch):
    """Makes the rules say what it is given."""

    def say(found: Findings) -> None:
        for module in ("findings", "overview"):
            monkeypatch.setattr(f"tracetui.app.views.{module}.session_findings", lambda session, on_error: found)

    return say


async def test_tables_of_a_tab_and_missing_rows(said):
    said(Findings((finding("S2"),)))
    async with opened(FP32, tab="findings") as (app, pilot):
        await press(pilot, "enter")
        shown = [(row["value"], row["where"]) for row in rows(app)]
        assert shown == [
            ("1.500 ms", "Kernels, copies: [CUDA memcpy Host-to-Device]"),
            ("12", "Host, API calls: / launch"),
            ("2.500 TFLOP", ""),
            (r"yes\x1b[31m", ""),
            ("1.00 %", "Kernels: nothing_like_it"),
        ]
        await press(pilot, "enter")
        assert lines(app)[2].startswith(" Copies and fills")
        assert lines(app)[4].startswith(">[CUDA memcpy Host-to-Device]")
        await press(pilot, "escape", "down", "enter")
        assert lines(app)[2].startswith(" API calls")
        assert all("aunch" in line for line in lines(app)[4:6])
        await press(pilot, "escape", "down", "enter")
        assert "No table shows the rows of this one" in lines(app)[-1]
        await press(pilot, "end", "enter")
        assert app.tab == "kernels"
        assert lines(app)[2].startswith(" Kernels ")
        assert "nothing_like_it is not among these kernels" in lines(app)[-1]


async def test_y_copies_the_command_to_run_next(said):
    said(Findings((finding("S2", next_command="tracetui profile vim_tiny"), finding("S5"))))
    async with opened(FP32, tab="findings") as (app, pilot):
        assert "y copy Run  x silence" in lines(app)[-1]
        await press(pilot, "y")
        assert app.clipboard == "tracetui profile vim_tiny"
        await press(pilot, "enter", "y")
        assert app.clipboard == "tracetui profile vim_tiny"
        await press(pilot, "escape", "down", "y")
        assert "no command to run next" in lines(app)[-1]
        await press(pilot, "w")
        assert app.clipboard == "S5 is so"
        await press(pilot, "Y")
        assert app.clipboard.startswith("severity\tid\tname")


async def test_what_was_set_aside_says_why_and_who_abstained_what_is_missing(said):
    said(
        Findings(
            (finding("V9", "invalid", title="No GPU events"),),
            suppressed=(Suppressed(finding("S2"), "V9"), Suppressed(finding("F1", ceiling_percent=0.5), "K14")),
            silenced=(Suppressed(finding("S5"), "not ours to mend"),),
            abstained=(Abstention("the machine's state: tracetui profile", "T1"),),
            checked=("V9", "S2"),
        )
    )
    async with opened(FP32, tab="findings") as (app, pilot):
        assert lines(app)[4].startswith(">x invalid")
        assert "v table 1/3" in lines(app)[-1]
        await press(pilot, "v")
        assert [row["by"] for row in rows(app)] == ["silenced: not ours to mend", "V9", "K14"]
        assert "Silenced: not ours to mend (x restores it)" in screen_text(app)
        await press(pilot, "down", "enter")
        assert "V9 refutes what it rests on" in screen_text(app)
        await press(pilot, "escape", "down")
        assert "K14: it would gain less than 2 % of the step" in screen_text(app)
        await press(pilot, "x")
        assert "set aside already" in lines(app)[-1]
        await press(pilot, "v")
        assert "v table 3/3" in lines(app)[-1]
        assert "the machine's state" in lines(app)[4]
        if "T1" in all_rules():
            assert f"T1 {all_rules()['T1'].title}" in screen_text(app)
        await press(pilot, "d", "d", "v")
        assert lines(app)[2].startswith(" Findings ")


async def test_a_clean_run_says_what_was_looked_for(said):
    said(Findings((), abstained=(Abstention("x", "T1"),), checked=tuple("abc")))
    async with opened(FP32, tab="findings") as (app, pilot):
        assert "Nothing found: 3 rules looked, 1 could not for want of evidence." in screen_text(app)
        assert "v table 1/3" in lines(app)[-1]
        await press(pilot, "enter", "d", "y", "w", "Y", "slash", "escape", "v")
        assert "Nothing was set aside" in screen_text(app)
        await press(pilot, "v")
        assert "1/1" in lines(app)[2]
        await press(pilot, "1")
        assert "Findings  none" in screen_text(app)


async def test_the_list_has_a_filter_of_its_own(said):
    said(Findings(tuple(finding(id) for id in ("S2", "S5", "F1"))))
    async with opened(FP32, tab="findings") as (app, pilot):
        await press(pilot, "slash")
        await write(pilot, "F1")
        await press(pilot, "enter")
        assert [row["id"] for row in rows(app)] == ["F1"]
        assert app.session.filter == ""
        await press(pilot, "enter")
        assert lines(app)[2].startswith(" Findings › F1")
        await press(pilot, "escape", "escape")
        assert len(rows(app)) == 3


async def test_the_text_below_can_be_put_away_and_stays_so(said):
    said(Findings((finding("S2"),)))
    async with opened(FP32, tab="findings") as (app, pilot):
        await press(pilot, "d")
        assert "mend it" not in screen_text(app)
        await press(pilot, "enter")
        assert "mend it" not in screen_text(app)
        await press(pilot, "d", "escape")
        assert "mend it" in screen_text(app)


@pytest.mark.parametrize("size", [(40, 12), (200, 60)])
async def test_in_terminals_of_any_size(size):
    async with opened(FP32, tab="findings", size=size) as (app, pilot):
        assert "S13" in lines(app)[4]
        await press(pilot, "enter", "end")
        assert max(map(len, lines(app))) <= size[0]
        await pilot.resize_terminal(80, 24)
        await settle(pilot)
        assert "Gains" in screen_text(app)


async def test_a_rule_that_fails_is_said_to_and_the_others_hold(monkeypatch):
    import tracetui.analysis.findings.engine as engine

    asked = engine._ask

    def ask(rule, *given):
        if rule.id == "S2":
            raise ZeroDivisionError("by zero")
        return asked(rule, *given)

    monkeypatch.setattr(engine, "_ask", ask)
    async with opened(FP32, tab="findings") as (app, pilot):
        assert "S2" not in [row["id"] for row in rows(app)]
        assert rows(app)
        await press(pilot, "v", "v")
        await to_row(app, pilot, "id", "S2")
        assert "a bug in tracetui: ZeroDivisionError: by zero" in screen_text(app)
        assert "ZeroDivisionError" in app.shell.errors[0]
        app.shell.errors.clear()


async def test_the_users_file_beside_the_recording_is_heard(tmp_path):
    trace = linked(FP32, tmp_path / "trace.json.gz")
    (tmp_path / ".tracetui.toml").write_text('[silence]\nS2 = "as planned"\nX9 = "never"\n')
    async with opened(trace, tab="findings") as (app, pilot):
        assert "S2" not in [row["id"] for row in rows(app)]
        assert "2 notes" in lines(app)[0]
        await press(pilot, "exclamation_mark")
        # where the path lies decides where the lines break
        assert "there is no rule X9" in " ".join(screen_text(app).split())
        await press(pilot, "escape")
        await press(pilot, "v")
        assert "silenced: as planned" in [row["by"] for row in rows(app)]


async def test_only_enter_silences_not_an_arrow_key(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trace = linked(FP32, tmp_path / "trace.json.gz")
    async with opened(trace, tab="findings") as (app, pilot):
        await press(pilot, "x")
        await write(pilot, "planned")
        await press(pilot, "down")
        assert not (tmp_path / ".tracetui.toml").exists()
        assert "because planned" in screen_text(app)
        await press(pilot, "enter")
        assert '"planned"' in (tmp_path / ".tracetui.toml").read_text()


async def test_a_trace_without_anything_says_so_and_breaks_nothing(tmp_path):
    empty = tmp_path / "empty.json"
    empty.write_text(json.dumps({"traceEvents": []}))
    async with opened(empty, tab="findings") as (app, pilot):
        assert isinstance(app.view, FindingsView)
        await press(pilot, "enter", "enter", "escape", "v", "v", "d", "d", "v")


async def test_of_two_runs_there_is_a_table_of_what_both_say():
    async with opened(FP32, FP16, tab="findings") as (app, pilot):
        assert lines(app)[2].startswith(" A: Findings")
        await press(pilot, "v", "v", "v")
        assert lines(app)[2].startswith(" A and B ")
        said = [row["id"] for row in rows(app)]
        assert said
        assert all(id.startswith("D") for id in said)
        app.action_swap_runs()
        await settle(pilot)
        assert lines(app)[2].startswith(" A and B ")
        await press(pilot, "v")
        assert lines(app)[2].startswith(" A: Findings")


async def test_of_one_run_there_is_no_such_table():
    async with opened(FP32, tab="findings") as (app, pilot):
        await press(pilot, "v", "v")
        assert "v table 3/3" in lines(app)[-1]
        await press(pilot, "v")
        assert lines(app)[2].startswith(" Findings ")


async def test_changes_that_were_tried_are_a_table_with_what_to_write(tmp_path):
    run = changeable(recorded("mlp_profiled"), tmp_path / "run")
    proof = {
        "change": "checkpointing off", "changes": ["no_checkpoints"], "write": ["call the layer itself"],
        "risks": ["more memory"], "step_ns": 36e6, "changed_ns": 21e6, "gain_ns": 15e6, "low_ns": 14e6, "high_ns": 16e6,
        "rounds": 3, "memory_bytes": 1 << 30, "changed_memory_bytes": 2 << 30, "compared": {"alike": "same"},
    }  # fmt: skip
    failed = {"change": "torch.compile", "changes": ["compile"], "explanation": "no compiler"}
    (run / "proofs.json").write_text(json.dumps({"schema": "tracetui.proofs/1", "proofs": [proof, failed]}))
    async with opened(run, tab="findings") as (app, pilot):
        await press(pilot, "v")
        text = screen_text(app)
        assert "as it was" in text
        assert "+41.7" in text
        await press(pilot, "down")
        text = screen_text(app)
        assert "Write  call the layer itself" in text
        assert "more memory" in text
        await press(pilot, "down")
        assert "no compiler" in screen_text(app)
        await press(pilot, "y", "enter")
        assert "Changes tried" in screen_text(app)
