"""Reports of at most so many tokens."""

import json

import pytest
from as_json import as_structs
from msgspec import to_builtins
from sample_runs import DATA, report_of

from tracetui.analysis.report.shorten import BYTES_PER_TOKEN, ORDER, TooShort, cut, fitting, levels, tokens
from tracetui.app.cli.main import main
from tracetui.app.reports.json_report import to_json

NAMES = ("vim_tiny_fp32_bs4.pt.trace.json.gz", "two_passes")

RUN = str(DATA / "two_passes")


def short(found, most: int):
    return json.loads(
        fitting(
            as_structs(found), most, lambda whole, level: to_json(cut(whole, level, most, lists=True), compact=True)
        )
    )


@pytest.mark.parametrize("name", NAMES)
def test_it_fits_and_the_most_important_stays(name) -> None:
    found = report_of(name)
    before = json.dumps(found)
    lengths = []
    for most in (100_000, 10_000, 3_000, 1_000, 400):
        said = short(found, most)
        assert tokens(to_json(said, compact=True)) <= most
        lengths.append(len(to_json(said, compact=True)))
        if "run" not in said:
            assert said["findings"][0]["key"] == main_trace(found)["findings"][0]["key"]
            assert said["waits_for"]["sentence"] == main_trace(found)["overview"]["waits_for"]["sentence"]
            continue
        trace, whole = main_trace(said), main_trace(found)
        there = [name for name in ORDER if name in trace]
        assert trace["findings"] == whole["findings"][: len(trace["findings"])]
        assert trace["overview"]["waits_for"] == whole["overview"]["waits_for"]
        # no section is there while a more important one is not
        assert there == [name for name in ORDER if name in whole][: len(there)]
        for section in there:
            if isinstance(whole[section], list) and section != "findings":
                gone = [one for one in said["left_out"] if one["what"] == section]
                shown = gone[0] if gone else {"shown": len(whole[section]), "of": len(whole[section])}
                assert (len(trace[section]), len(whole[section])) == (shown["shown"], shown["of"])
        named = {one["what"] for one in said["left_out"]}
        assert {name for name in ORDER if whole.get(name) and name not in trace} <= named
    assert lengths == sorted(lengths, reverse=True)
    assert json.dumps(found) == before


def main_trace(found):
    return found["run"]["traces"][found["run"]["main"]]


def test_each_form_has_its_schema() -> None:
    validate = pytest.importorskip("jsonschema").Draft202012Validator
    from tracetui.analysis.schemas.outputs import json_schema

    schemas = {name: validate(json_schema(name, closed=True)) for name in ("report", "headline")}
    found = report_of("two_passes")
    for level in list(levels())[::3]:
        said = to_builtins(cut(as_structs(found), level, 1, lists=True))
        errors = list(schemas["report" if "run" in said else "headline"].iter_errors(said))
        assert not errors, (level, errors[0].message[-200:])


def test_what_can_not_be_shorter_says_what_it_needs() -> None:
    with pytest.raises(TooShort) as refused:
        short(report_of("two_passes"), 10)
    assert 10 < refused.value.needs < 400


def test_text_markdown_and_json_of_a_command(capsys) -> None:
    for form in ("text", "markdown", "json"):
        assert main(["report", RUN, "--max-tokens", "900", "--format", form]) == 0
        out = capsys.readouterr().out
        assert len(out.encode()) <= 900 * BYTES_PER_TOKEN
        assert "eft out for --max-tokens 900" in out or '"left_out"' in out
    assert main(["report", RUN, "--max-tokens", "9", "--section", "findings"]) == 2
    assert "the shortest report needs about" in capsys.readouterr().err
    assert main(["report", RUN, "--max-tokens", "900", "--format", "csv"]) == 2
    assert "not csv" in capsys.readouterr().err
