"""The plain-text report: it fits 80 columns, begins with the verdict, and can be pasted anywhere."""

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ncu_file
import pytest
from as_json import diff_report, report
from laid_out import body, diff_csv, diff_markdown, diff_text, report_csv, report_markdown, report_text
from sample_runs import recorded, report_of

from tracetui.analysis.selection import select
from tracetui.app.cli.main import main
from tracetui.app.reports.layout import Layout, Shown
from tracetui.app.reports.markdown import code, plain
from tracetui.app.tables.trees import largest, merged_modules, not_attributed_percent, tree_rows
from tracetui.app.text.fitting import cell_width
from tracetui.parsers import Trace, open_path

VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
VIM_FP16 = "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz"
RESNET = "chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz"
GPT = "chrome/gpt_small_ctx256.trace.json.gz"
TWO_RANKS = "chrome/ddp_vit_small_2ranks"
RECORDINGS = (
    "chrome/cudagraph_replay.trace.json.gz",
    "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz",
    "chrome/forms/amd_mi250_rocm.json.gz",
    "chrome/forms/cpu_only_rank34.json.gz",
    "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz",
    GPT,
    "chrome/hta_trace_diff/test.json.gz",
    RESNET,
    VIM,
    VIM_FP16,
    TWO_RANKS,
)
NASTY = "\x1b[31mevil|`name`\u202e\n日本"


@pytest.mark.parametrize("name", RECORDINGS)
def test_no_line_is_wider_than_80_columns(name: str) -> None:
    for limit in (None, 10):
        for line in report_text(report_of(name), limit=limit).splitlines():
            assert cell_width(line) <= 80, line
            assert line.isprintable(), repr(line)


@pytest.mark.parametrize("name", RECORDINGS)
def test_ascii_is_ascii_and_as_narrow(name: str) -> None:
    text = report_text(report_of(name), limit=10, ascii=True)
    assert text.isascii()
    assert max(map(len, body(text).splitlines())) <= 80


def test_the_verdict_stands_before_the_numbers() -> None:
    found = report_of(VIM)
    text = report_text(found, limit=10)
    sentence = found["run"]["traces"][0]["overview"]["waits_for"]["sentence"]
    assert "CPU, not the GPU" in sentence
    assert " ".join(sentence.split()) in " ".join(text.split())
    assert text.index("Waits for") < text.index("The step: ") < text.index("Kernels (")


def test_a_newcomer_finds_kernel_module_and_host_function() -> None:
    text = report_text(report_of(VIM), limit=10)
    kernels = text[text.index("Kernels (") : text.index("Host functions (")]
    assert re.search(r"selective_scan_fwd_kernel +Mamba ×48", kernels.splitlines()[2])
    assert "10 of 20; --limit 0 for all" in kernels
    assert "Mamba ×48" in text[text.index("Modules (") :]
    assert text.index("Host functions (") < text.index("Operators (")


def test_what_a_recording_lacks_is_said() -> None:
    def lacks(name: str) -> str:
        text = report_text(report_of(name))
        return " ".join(text[text.index("Not in this recording") :].split())

    missing = lacks(GPT)
    assert "with_stack=True" in missing
    assert "profile_memory" not in missing
    assert "steps:" not in missing
    assert "no range tells them; --steps-by NAME takes one" in lacks("chrome/cudagraph_replay.trace.json.gz")
    assert "Not in this recording" not in report_text(report_of(VIM))


def test_several_ranks_name_the_straggler() -> None:
    text = report_text(report_of(TWO_RANKS), limit=10)
    said = " ".join(text.split())
    assert "In the program rank 1 has 1.975 ms more GPU work per step than the median rank" in said
    assert "1.47 times as many blocks" in said  # its batch is 1.5 times the other's
    # who is late and what to do about it first, then the rest about the job, then the rank's own tables
    order = [
        "The job",
        "Below: rank 1",
        "Findings (",
        "More on the job",
        "Ranks (per step as recorded",
        "Rank    1 of 2",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert text[: text.index("Findings (")].count("\n") < 24


def test_skipped_events_are_reported() -> None:
    found = report(open_path(recorded("broken/truncated_mid_event.json"), cache=False))
    text = report_text(found)
    assert "Skipped: 1 ×" in text
    assert "21 of 22 events read" in text


def test_other_runs_of_a_folder_are_listed_with_their_paths() -> None:
    folder = recorded("chrome")
    run = open_path(folder, cache=False)
    text = report_text(report(run, sections=["launches"]))
    assert f"One of {len(run.others) + 1} runs in this folder" in text
    listed = text[text.index("other runs in this folder") :].replace("\n", "").replace(" ", "")
    assert all(len(files) > 1 or str(files[0]) in listed for _, files in run.others)


def test_what_belongs_to_no_module_is_said() -> None:
    text = report_text(report_of(VIM), limit=3)
    assert "1.72 % of GPU time is of no module." in text


def test_an_empty_trace_has_a_report() -> None:
    text = report_text(report(open_path(recorded("broken/empty_events.json"), cache=False)))
    assert "0 of 0 events read" in text
    assert "Kernels (" not in text


def _nasty(found: Any) -> Any:
    """The same report with every name replaced by one that tries to get at the terminal."""
    if isinstance(found, dict):
        return {
            key: NASTY
            if isinstance(value, str) and key in {"name", "short_name", "path", "operator", "module", "class_name"}
            else _nasty(value)
            for key, value in found.items()
        }
    return [_nasty(item) for item in found] if isinstance(found, list) else found


def test_no_name_gets_at_the_terminal(recording: Callable[[str], Trace]) -> None:
    found = _nasty(report_of(VIM))
    found["run"]["warnings"] = [NASTY]
    found["run"]["other_runs"] = [{"name": NASTY, "paths": [NASTY]}]
    diff = _nasty(diff_report(select(recording(VIM)), select(recording(VIM_FP16))))
    texts = [
        report_text(found),
        report_text(found, ascii=True),
        report_markdown(found),
        diff_text(diff),
        diff_markdown(diff),
    ]
    texts += [report_csv(found, section) for section in ("kernels", "modules", "host_functions")]
    for text in texts:
        assert "evil" in text
        assert all(char.isprintable() or char in "\r\n" for char in text)
    for text in (texts[0], texts[1], texts[3]):
        assert all(cell_width(line) <= 80 for line in body(text).splitlines())


def test_csv_has_one_line_a_row_and_bare_numbers() -> None:
    found = report_of(VIM)
    table = list(csv.DictReader(io.StringIO(report_csv(found, "kernels"))))
    rows = found["run"]["traces"][0]["kernels"]
    assert [row["name"] for row in table] == [row["name"] for row in rows]
    assert [float(row["total_us"]) for row in table] == [row["total_us"] for row in rows]
    assert "modules" not in table[0]
    steps = list(csv.DictReader(io.StringIO(report_csv(found, "overview"))))
    assert [step["index"] for step in steps] == ["1", "2", "3"]
    assert float(steps[0]["step_us"]) == pytest.approx(
        sum(float(v) for k, v in steps[0].items() if k.endswith("_us")) / 2
    )
    assert len(list(csv.DictReader(io.StringIO(report_csv(found, "launches"))))) == 1


@pytest.mark.parametrize("section", ["overview", "launches", "communication"])
def test_csv_of_what_a_recording_can_not_tell_has_no_rows(section: str, tmp_path: Path) -> None:
    """Nsight Compute has no time line: the overview of its report is null."""
    path = tmp_path / "a.csv"
    path.write_text(ncu_file.wide_table({"launch__registers_per_thread": ""}, [("k()", ["32"])]))
    found = report(open_path(path, cache=False))
    assert len(report_csv(found, section).splitlines()) <= 1


def test_csv_of_several_ranks_says_whose_row_it_is() -> None:
    table = list(csv.DictReader(io.StringIO(report_csv(report_of(TWO_RANKS), "kernels"))))
    assert {row["rank"] for row in table} == {"0", "1"}
    collectives = list(csv.DictReader(io.StringIO(report_csv(report_of(TWO_RANKS), "communication"))))
    assert all("nccl" in row["name"] for row in collectives)
    assert {row["rank"] for row in collectives} == {"0", "1"}
    ranks = list(csv.DictReader(io.StringIO(report_csv(report_of(TWO_RANKS), "ranks"))))
    assert [row["straggler"] for row in ranks] == ["false", "true"]


@pytest.mark.parametrize("name", RECORDINGS)
def test_markdown_tables_are_whole(name: str) -> None:
    width = 0
    for line in report_markdown(report_of(name), limit=10).splitlines():
        if not line.startswith("|"):
            width = 0
            continue
        cells = len(re.findall(r"(?<!\\)\|", line)) - 1
        assert width in (0, cells), line
        width = cells


def test_markdown_takes_names_literally() -> None:
    assert plain("a|b`c*_<d>") == r"a\|b\`c\*\_\<d\>"
    assert code("gemm<float>|x") == r"`gemm<float>\|x`"
    assert code("a`b``c") == "``` a`b``c ```"


def test_the_diff_names_changes_by_word_and_sign(recording: Callable[[str], Trace]) -> None:
    found = diff_report(select(recording(VIM)), select(recording(VIM_FP16)))
    for ascii in (False, True):
        text = diff_text(found, limit=30, ascii=ascii)
        assert all(cell_width(line) <= 80 for line in body(text).splitlines())
        assert "+ added" in text
        assert "~ changed" in text
    assert text.isascii()
    assert "NOT COMPARABLE" not in text
    assert re.search(r" 96 +~ changed +sm80_\S+ ?\+1 -> cutlas\S+_tn\n", text)
    pair = r"aten::mm: sm80_xmma_gemm_f32_tn_n_64x64x8_ffma \+1 -> cutlass_80_\S+, -375.4 us"
    assert re.search(pair, " ".join(text.split()))
    removed = diff_text(diff_report(select(recording(VIM_FP16)), select(recording(VIM))), limit=30)
    assert re.search(r"199→0 +- removed +elementwise: copy fp16", removed)
    assert re.search(r" 48 +~ changed +selective_scan_fwd_kernel\n", text)
    assert "types: the same kernel over other element types in B" in text
    assert re.search(r"Mixer/Mamba x48", text)
    table = list(csv.DictReader(io.StringIO(diff_csv(found, "operators"))))
    assert len(table) == len(found["operators"])


def test_a_run_has_not_changed_from_itself(recording: Callable[[str], Trace]) -> None:
    sel = select(recording(VIM))
    found = diff_report(sel, sel)
    assert found["step"]["delta_us"] == 0
    assert {row["status"] for name in ("kernels", "operators", "modules") for row in found[name]} == {"same"}
    assert found["comparable"] == {"verdict": "comparable", "differences": []}
    text = diff_text(found)
    assert "B's step is as long as A's within these two runs: 105.7 ms" in text
    assert "Kernels: 0 added, 0 removed, 0 changed" in text
    assert "Where the difference" not in text


def test_a_diff_across_hardware_says_so(recording: Callable[[str], Trace]) -> None:
    text = diff_text(diff_report(select(recording(VIM)), select(recording(RESNET))), limit=3)
    assert "NOT COMPARABLE" in text
    assert "Tesla V100" in text


def test_long_columns_share_the_room_and_short_ones_keep_theirs() -> None:
    columns = [Shown("n"), Shown("long", right=False, share=2), Shown("other", right=False, share=1)]
    lines = Layout().table(columns, [["1,234", "x" * 100, "y" * 100], ["5", "short", "z"]])
    assert [len(line) for line in lines[1:2]] == [80]
    assert "1,234" in lines[1]
    assert lines[1].count("…") == 2
    roomy = Layout().table(columns, [["1", "x" * 60, "y"]])
    assert "x" * 60 in roomy[1]


def test_merged_modules_are_a_tree_that_adds_up() -> None:
    def row(path: str, device: float) -> dict[str, Any]:
        name = path.split("/")[-1]
        times = {
            "host_total_us": device,
            "device_self_us": 0.0,
            "device_total_us": device,
            "backward_device_us": 0.5,
            "calls": 1,
        }
        depth = path.count("/")
        return {"path": path, "name": name, "class_name": name.rpartition("_")[0], "depth": depth, **times}

    rows = [
        row("Net_0", 10.0),
        row("Net_0/Block_0", 4.0),
        row("Net_0/Block_0/Linear_0", 3.0),
        row("Net_0/Block_1", 5.0),
        row("Net_0/Block_1/Linear_1", 1.0),
        row("Net_0/Block_1/Norm_0", 0.5),
        row("Net_0/Head_0", 1.0),
    ]
    tree = merged_modules(tree_rows(rows))
    assert [(node.label, node.depth) for node in tree] == [
        ("Net", 0),
        ("Block ×2", 1),
        ("Linear ×2", 2),
        ("Norm", 2),
        ("Head", 1),
    ]
    assert tree[1].device_total_us == 9.0
    assert tree[1].backward_device_us == 1.0
    assert not_attributed_percent(tree) == 0
    assert [node.label for node in largest(tree, 3)] == ["Net", "Block ×2", "Linear ×2"]


def test_sections_of_a_job_are_of_the_rank_that_the_whole_report_shows(capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(recorded("chrome/ddp_vit_small_2ranks"))
    said = []
    for asked in ((), ("--section", "overview"), ("--section", "kernels", "findings")):
        assert main(["report", folder, *asked]) == 0
        said.append(capsys.readouterr().out)
    (below,) = {line for line in said[0].splitlines() if line.startswith("Below: rank ")}
    for text in said[1:]:
        assert below in text
        assert "The job\n" in text
        assert text.count("\nRank    ") == 1, "one rank, and what is said of all of them once"
    whole = said[0].split("The job\n")[1].split("\n\n")[0]
    assert all(whole in text for text in said)


def test_csv_of_a_folder_holds_one_tools_rows(capfd: pytest.CaptureFixture[str]) -> None:
    for section, file in (("kernels", "trace.pt.trace.json.gz"), ("counters", "ncu.csv")):
        assert main(["report", "--sample", "--format", "csv", "--section", section, "--no-cache"]) == 0
        out, said = capfd.readouterr()
        assert {Path(row["trace"]).name for row in csv.DictReader(io.StringIO(out))} == {file}
        assert "rows of one tool; --source picks it: chrome, nsys, ncu" in said
