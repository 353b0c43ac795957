"""Rules on sweeps: what scales, what does not, what is noise, and what is no sweep at all."""

from pathlib import Path
from typing import Any

import pytest
from judged import find
from sweep_maker import write_sweep

from tracetui.analysis.findings import catalogue
from tracetui.analysis.findings.config import Config
from tracetui.analysis.findings.core.finding import Finding, Findings
from tracetui.analysis.findings.pairs import sweep as rules
from tracetui.analysis.sweeps.reading import read_sweep
from tracetui.app.cli.main import main

RULES = {id: catalogue.RULES[id] for id in ("S4", "D6", "D8", "D9")}

PUBLISHED_SWEEP = """\
batch_size,token_reduction,throughput_img_s,latency_ms
1,none,7.6,131.579
2,none,32.8,30.488
4,none,71.4,14.006
8,none,32.8,30.488
16,none,33.0,30.303
1,0.1,105.6,9.470
2,0.1,100.0,10.000
4,0.1,99.0,10.101
8,0.1,101.0,9.901
16,0.1,100.0,10.000
"""
"""A table in the form of the published sweep of a token-reducing DeiT: its throughputs at batches 1, 2, 4 and 8
without reduction (7.6, 32.8, 71.4, 32.8 img/s), its 13.9 times at batch 1, and throughput x latency = 1 image in
every row. The other rows are made up in its likeness."""


def of(tmp_path: Path, text: str, config: Config | None = None) -> Findings:
    path = tmp_path / "table.csv"
    path.write_text(text)
    return find(read_sweep(path), config, rules=RULES)


def table(*rows: tuple[float, float], head: str = "batch,latency_ms") -> str:
    return "\n".join([head, *(",".join(map(str, row)) for row in rows), ""])


def by_id(found: Findings) -> dict[str, Finding]:
    return {finding.id: finding for finding in found.found}


def missing(found: Findings) -> dict[str, str]:
    return {row.id: row.missing for row in found.abstained}


def test_every_rule_is_about_sweeps() -> None:
    assert rules.invalid_sweep
    assert all(catalogue.RULES[id].subject == "sweep" for id in RULES)


# --- D9


def test_the_published_sweep_ran_one_image_in_every_row(tmp_path: Path) -> None:
    found = of(tmp_path, PUBLISHED_SWEEP)
    assert list(by_id(found)) == ["D9"]
    (finding,) = found.found
    assert finding.severity == "invalid"
    assert finding.title.startswith("All 10 points ran 1.00 sample per step, whatever batch they name")
    assert "= 1.00" in finding.formula
    assert "16 were asked for" in finding.formula
    # nothing else is concluded from its rows: no "batch size has no impact", no crossover, no anomaly at batch 4
    assert set(missing(found)) == {"S4", "D6", "D8"}
    assert "(D9)" in missing(found)["S4"]
    assert "repeats" in missing(found)["D8"]


def test_its_text_says_so_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "batch_size_sweep_results.csv"
    path.write_text(PUBLISHED_SWEEP)
    assert main(["sweep", str(path)]) == 0
    text = capsys.readouterr().out
    assert "Invalid: All 10 points ran 1.00 sample per step" in text.replace("\n", " ")
    assert "speed-up" not in text


def test_a_table_that_ran_what_it_names_is_fine(tmp_path: Path) -> None:
    found = of(tmp_path, "bs,img_s,latency_ms\n1,100,10\n2,180,11.1\n4,300,13.33\n")
    assert "D9" not in by_id(found)
    assert "D9" in found.checked


def test_rounded_numbers_are_no_other_batch(tmp_path: Path) -> None:
    found = of(tmp_path, "bs,img_s,latency_ms\n1,8,131\n2,15,131\n4,30,131\n")  # 8 may be 7.5 to 8.5
    assert "D9" not in by_id(found)
    assert "D9" in by_id(of(tmp_path, "bs,img_s,latency_ms\n1,8,131\n2,8,131\n4,8,131\n"))


def test_a_loader_with_a_batch_of_its_own(tmp_path: Path) -> None:
    found = by_id(of(tmp_path, "bs,img_s,latency_ms\n4,100,1200\n8,110,2181.8\n"))["D9"]  # 30 times as many
    assert found.title == "All 2 points ran another batch than they name"
    assert found.severity == "invalid"


def test_one_wrong_row_of_several(tmp_path: Path) -> None:
    found = by_id(of(tmp_path, "bs,img_s,latency_ms\n1,100,10\n2,180,11.1\n4,150,13.33\n"))["D9"]
    assert (found.severity, found.title) == ("warning", "1 of 3 points ran another batch than they name")


def test_the_batch_that_run_json_saw(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "sweep", [({"batch": batch}, [1000.0], 1e9, 5) for batch in (1, 2, 4)])
    for file in folder.rglob("run.json"):
        file.write_text(file.read_text().replace('"batch": 2,', '"batch": 1,').replace('"batch": 4,', '"batch": 1,'))
    found = by_id(find(read_sweep(folder), rules=RULES))
    assert found["D9"].title.startswith("All 3 points ran 1.00 sample per step")


def test_without_throughput_the_batch_is_not_known(tmp_path: Path) -> None:
    assert "throughput and latency" in missing(of(tmp_path, table((1, 10), (2, 11))))["D9"]


# --- S4


PUBLISHED_CONTEXTS = table((128, 26.7), (256, 27.1), (512, 27.5), head="ctx,forward_ms")
"""Published forward times of a small GPT by context length."""


def test_the_published_flat_contexts(tmp_path: Path) -> None:
    found = by_id(of(tmp_path, PUBLISHED_CONTEXTS))
    assert found["S4"].title.startswith("The step takes as long at ctx 512 as at 128")
    assert found["S4"].formula == "ctx grow 4.00 times, step times differ by 3.00 %"


def test_times_that_scale_are_not_flat(tmp_path: Path) -> None:
    found = of(tmp_path, table((1, 10), (2, 19), (4, 37), (8, 73)))
    assert by_id(found) == {}
    assert "S4" in found.checked


def test_flat_up_to_a_batch(tmp_path: Path) -> None:
    found = by_id(of(tmp_path, table((1, 10), (2, 10.2), (4, 10.9), (8, 19), (16, 37))))
    assert found["S4"].title.startswith("The step takes as long at batch 4 as at 1")


def test_flops_decide_where_they_are_known(tmp_path: Path) -> None:
    points: list[tuple[dict[str, Any], list[float], float, int]] = [
        ({"depth": depth}, [1000.0 + depth], flops, 5) for depth, flops in ((2, 1.0e9), (4, 1.5e9))
    ]
    found = find(read_sweep(write_sweep(tmp_path / "sweep", points)), rules=RULES)
    assert "S4" not in by_id(found)  # the depth doubles, the work does not


def test_noise_is_not_taken_for_flat(tmp_path: Path) -> None:
    rows = [(batch, time) for batch in (1, 2, 4) for time in (10.0, 25.0)]
    found = of(tmp_path, table(*rows))
    assert "S4" not in by_id(found)


def test_sizes_are_needed(tmp_path: Path) -> None:
    found = of(tmp_path, "keep,latency_ms\n1.0,10\n0.5,9\n")
    assert {"S4", "D8"} <= set(missing(found))


# --- D8


def repeated(*points: tuple[int, float], spread: float = 0.01) -> str:
    rows = [(batch, time * (1 + sign * spread)) for batch, time in points for sign in (-1, 0, 1)]
    return table(*rows)


def test_a_point_off_its_line(tmp_path: Path) -> None:
    found = by_id(of(tmp_path, repeated((1, 30), (2, 30.4), (4, 14), (8, 31), (16, 60))))["D8"]
    assert found.title.startswith("batch 4 is off its line: its step is 53.9 % shorter than its neighbours allow")
    assert found.evidence[1].query is not None
    assert found.evidence[1].query.row == "batch 4"


def test_a_slow_first_point(tmp_path: Path) -> None:
    found = by_id(of(tmp_path, repeated((1, 50), (2, 10), (4, 18), (8, 34))))["D8"]
    assert found.title.startswith("batch 1 is off its line")


def test_a_knee_is_no_anomaly(tmp_path: Path) -> None:
    found = of(tmp_path, repeated((1, 10), (2, 10.01), (4, 10.02), (8, 20), (16, 40)))
    assert "D8" not in by_id(found)
    assert "D8" in found.checked


def test_what_repeats_vary_by_is_no_anomaly(tmp_path: Path) -> None:
    found = of(tmp_path, repeated((1, 30), (2, 30.4), (4, 25), (8, 31), spread=0.2))
    assert "D8" not in by_id(found)


def test_without_repeats_nobody_can_tell(tmp_path: Path) -> None:
    found = of(tmp_path, table((1, 30), (2, 30.4), (4, 14), (8, 31)))
    assert "repeats" in missing(found)["D8"]


def test_more_than_in_proportion_is_fine_for_contexts(tmp_path: Path) -> None:
    rows = [(ctx, time) for ctx, time in ((128, 10.0), (256, 35.0), (512, 140.0)) for _ in range(2)]
    text = table(*[(ctx, time * (1.001 if n % 2 else 1)) for n, (ctx, time) in enumerate(rows)], head="ctx,ms")
    assert "D8" not in by_id(of(tmp_path, text))


# --- D6


GUIDE = """\
batch,image size,keep,img/s,GF
1,224,1.0,169.7,17.57
1,224,0.1,140.9,5.55
8,448,1.0,108.7,628.16
8,448,0.1,321.3,197.84
"""
"""The table of a published guide: images per second and GFLOPs (there per image, here per step)."""


def test_the_guides_table(tmp_path: Path) -> None:
    said = [finding for finding in of(tmp_path, GUIDE).found if finding.id == "D6"]
    assert len(said) == 2  # two sizes that differ in batch and resolution at once: no line to cross
    small = next(finding for finding in said if "img_size 224" in finding.title)
    large = next(finding for finding in said if "img_size 448" in finding.title)
    assert "one size only" in small.title
    assert "0.1 is 0.83 times as fast at batch 1" in small.title
    assert str(small.evidence[0].value).startswith("0.83 times as fast; 68.4 % less work")
    assert str(large.evidence[0].value).startswith("2.96 times as fast; 68.5 % less work")


def test_a_crossover_between_two_batches(tmp_path: Path) -> None:
    text = "batch,keep,latency_ms\n1,1.0,6\n1,0.1,7\n4,1.0,9\n4,0.1,7.2\n"
    found = by_id(of(tmp_path, text))["D6"]
    assert "0.1 is faster from batch" in found.title
    assert found.severity == "warning"
    assert "below the crossover" in found.advice.lower()


def test_no_crossover_is_said(tmp_path: Path) -> None:
    found = by_id(of(tmp_path, "batch,dtype,latency_ms\n1,fp32,6\n1,fp16,4\n4,fp32,9\n4,fp16,5\n"))["D6"]
    assert "no crossover in range: fp16 is faster at every batch from 1 to 4" in found.title
    assert found.severity == "info"


def test_one_line_has_nothing_to_cross(tmp_path: Path) -> None:
    assert "two variants" in missing(of(tmp_path, table((1, 10), (2, 11))))["D6"]


def test_limits_are_the_users(tmp_path: Path) -> None:
    text = table((1, 10), (2, 11.5))
    assert "S4" not in by_id(of(tmp_path, text))
    assert "S4" in by_id(of(tmp_path, text, Config(thresholds={"S4.change_percent": 20})))
