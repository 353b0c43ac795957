"""Settings: which place wins, what is said of wrong ones, and that choices made on the screen are kept."""

import json
from types import SimpleNamespace

import pytest
from sample_runs import recorded

from tracetui.analysis.findings import config
from tracetui.app.cli.main import main
from tracetui.app.settings import schema as settings
from tracetui.app.settings import state
from tracetui.app.settings.schema import CHOSEN, SCHEMA, ColumnChoice, resolve


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Empty folders for the user's file, the project and what is remembered."""
    mine, project, kept = tmp_path / "mine", tmp_path / "project", tmp_path / "kept"
    for folder in (mine, project, kept):
        folder.mkdir()
    monkeypatch.setenv("TRACETUI_CONFIG_DIR", str(mine))
    monkeypatch.setenv("TRACETUI_DATA_DIR", str(kept))
    monkeypatch.delenv("TRACETUI_NO_STATE", raising=False)
    monkeypatch.chdir(project)
    return SimpleNamespace(user=mine / "config.toml", project=project / ".tracetui.toml", folder=project, kept=kept)


def held(places, environment=None, **given):
    return resolve(given, [places.folder], environment or {})


def test_without_files_the_defaults_hold(places) -> None:
    found = held(places)
    for option in SCHEMA:
        assert found.value(option.key) == option.default
    assert not found.problems
    assert not found.origins
    assert found.low_bandwidth is None
    assert found.mouse is None


def test_each_place_goes_before_the_next(places) -> None:
    places.user.write_text('theme = "light"\nnames = "full"\nascii = true\nlimit = 3\ncolor = "256"\n')
    places.project.write_text('names = "raw"\nlimit = 4\nascii = false\n[thresholds]\n"S2.late_percent" = 20\n')
    found = held(places, {"TRACETUI_LIMIT": "5", "TRACETUI_MOUSE": "off", "NO_COLOR": "1"}, limit=6)
    assert (found.theme, found.names, found.ascii, found.limit, found.mouse) == ("light", "raw", False, 6, False)
    assert found.color == "never"
    assert not found.problems
    assert found.origins == {
        "theme": str(places.user), "names": str(places.project), "ascii": str(places.project), "limit": "--limit",
        "mouse": "TRACETUI_MOUSE", "color": "NO_COLOR",
    }  # fmt: skip


def test_an_empty_no_color_asks_for_nothing(places) -> None:
    assert held(places, {"NO_COLOR": ""}).color == "auto"
    assert held(places, {"NO_COLOR": "1", "TRACETUI_COLOR": "16"}).color == "16"


def test_columns_hold_by_page_and_keys_by_action(places) -> None:
    places.user.write_text(
        '[columns.kernels]\nshow = ["max"]\n[columns.host]\nhide = ["calls"]\n'
        '[keys]\n"table.filter" = "f"\ntable.export = ["x", "ctrl+e"]\n'
    )
    places.project.write_text('[columns.kernels]\nhide = ["calls"]\n[keys]\n"table.filter" = []\n')
    found = held(places)
    assert found.columns == {"kernels": ColumnChoice((), ("calls",)), "host": ColumnChoice((), ("calls",))}
    assert found.keys == {"table.filter": (), "table.export": ("x", "ctrl+e")}
    assert found.origins["columns.kernels"] == str(places.project)
    assert found.origins["keys.table.export"] == str(places.user)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour = 1", "there is no setting colour; did you mean color?"),
        ("theme = 3", 'theme = 3: allowed is "auto", "dark", "light", "high-contrast", "ansi", "ansi-light"'),
        ('theme = "purple"', 'theme = "purple": allowed is'),
        ("ascii = 1", "ascii = 1: allowed is true, false"),
        ("mouse = []", 'mouse = []: allowed is true, false, "auto"'),
        ("limit = -1", "limit = -1: allowed is a whole number, 0 for all"),
        ("limit = true", "limit = true: allowed is"),
        ("keys = 1", "keys = 1: allowed is a table"),
        ("[keys]\na = 1", "keys.a = 1: allowed is a key in quotes, or a list of them"),
        ("[columns]\nkernels = 1", "columns.kernels = 1: allowed is a table with show and hide"),
        ("[columns.kernels]\nshow = 1", "columns.kernels.show = 1: allowed is a list of names"),
        ("[columns.kernels]\nwide = []", "there is no columns.kernels.wide; there are show, hide"),
        ("theme = [[", "Invalid value"),
        ("x = " + "[" * 3000, ""),
    ],
)
def test_what_is_wrong_is_said_in_a_line_and_the_rest_is_used(places, text, said) -> None:
    places.project.write_text('ascii = true\nnames = "full"\n')
    places.user.write_text(text)
    found = held(places)
    assert len(found.problems) == 1
    assert found.problems[0].startswith(f"{places.user}: ")
    assert said in found.problems[0]
    assert "\n" not in found.problems[0]
    assert found.ascii
    assert found.names == "full"


def test_a_file_that_is_no_text_or_can_not_be_read(places) -> None:
    places.user.write_bytes(b"theme = \xff\xfe")
    assert held(places).problems == (f"{places.user}: is not UTF-8 text",)


def test_a_wrong_variable_is_said(places) -> None:
    found = held(places, {"TRACETUI_MOUSE": "sometimes", "TRACETUI_THEME": "light"})
    assert found.problems == ('TRACETUI_MOUSE=sometimes: allowed is true, false, "auto"',)
    assert found.theme == "light"


def test_nothing_is_imported_to_read_toml_where_there_is_no_file(places) -> None:
    import subprocess
    import sys

    script = (
        "import sys\nfrom tracetui.app.settings.schema import resolve\nresolve({}, [])\n"
        "print([name for name in ('tomllib', 'tomli', 'textual', 'polars') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- thresholds in two files


def test_thresholds_of_both_files_hold_and_the_projects_goes_first(places) -> None:
    places.user.write_text('theme = "light"\n[thresholds]\n"S2.late_percent" = 10\n[silence]\nF1 = "mine"\n')
    places.project.write_text('[thresholds]\n"S2.late_percent" = 20\n[silence]\nF2 = "ours"\n')
    found = config.load(places.folder)
    assert found.thresholds == {"S2.late_percent": 20}
    assert found.silenced == {"F1": "mine", "F2": "ours"}
    assert not found.problems
    places.project.unlink()
    assert config.load(places.folder).thresholds == {"S2.late_percent": 10}


# --- what was chosen on the screen


def test_a_choice_holds_until_the_file_says_something_else(places) -> None:
    places.user.write_text('theme = "light"\n')
    settings.keep(held(places), "theme", "high-contrast")
    assert held(places).theme == "high-contrast"
    assert held(places).origins["theme"] == CHOSEN
    assert held(places, {"TRACETUI_THEME": "dark"}).theme == "dark"
    places.user.write_text('theme = "ansi"\n')
    assert held(places).theme == "ansi"
    places.user.write_text('theme = "light"\n')
    assert held(places).theme == "high-contrast"
    settings.keep(held(places), "theme", "light")
    assert held(places).origins["theme"] == str(places.user), "what the file says anyway is not kept"


def test_chosen_columns_go_before_those_of_the_file(places) -> None:
    settings.keep_columns(held(places), "kernels", (frozenset({"calls"}), frozenset({"max_ns"})))
    settings.keep_columns(held(places), "host", (frozenset(), frozenset()))
    found = held(places).chosen_columns
    assert found == {
        "kernels": (frozenset({"calls"}), frozenset({"max_ns"})), "host": (frozenset(), frozenset()),
    }  # fmt: skip
    places.user.write_text('[columns.kernels]\nshow = ["min"]\n')
    assert set(held(places).chosen_columns) == {"host"}
    settings.keep_columns(held(places), "host", None)
    assert not held(places).chosen_columns


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", '{"theme": "light"}', '{"theme": {"value": "purple", "over": "auto"}}', '{"columns": [1]}',
     '{"columns": {"kernels": {"hidden": 1, "pinned": [], "over": null}}}', "[" * 100_000, '{"unknown": {"value": 1}}'],
)  # fmt: skip
def test_a_damaged_memory_is_no_memory(places, content) -> None:
    (places.kept / "settings.json").write_text(content)
    found = held(places)
    assert found.theme == "auto"
    assert not found.chosen_columns
    assert not found.problems
    assert settings.keep(found, "theme", "light")
    assert held(places).theme == "light"


def test_nothing_is_kept_where_nothing_is_to_be_kept(places, monkeypatch) -> None:
    monkeypatch.setenv("TRACETUI_NO_STATE", "1")
    assert not settings.keep(held(places), "theme", "light")
    assert not list(places.kept.iterdir())


def test_a_folder_that_can_not_be_written_is_no_error(places, monkeypatch) -> None:
    monkeypatch.setenv("TRACETUI_DATA_DIR", str(places.user / "below-a-file"))
    places.user.write_text("")
    assert not state.write("settings", {"a": 1})
    assert state.read("settings") == {}
    assert not state.forget("settings")


# --- the command


def test_config_shows_each_value_and_its_place(places, capsys) -> None:
    places.user.write_text(
        'theme = "light"\nnonsense = 1\n[keys]\nsort.reverse = "c"\n[columns.kernels]\nshow = ["Max"]\n'
    )
    assert main(["config"]) == 0
    shown = capsys.readouterr().out
    line = next(line for line in shown.splitlines() if line.startswith("theme"))
    assert line.split() == ["theme", '"light"', str(places.user)]
    assert "there is no setting nonsense" in shown
    assert "keys.sort.reverse: c is taken from table.columns, which has no key now" in shown
    assert main(["config", "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["settings"]["theme"] == {"value": "light", "from": str(places.user)}
    assert content["keys"]["sort.reverse"]["keys"] == ["c"]
    assert content["columns"]["kernels"]["show"] == ["Max"]
    assert content["files"]["user"] == {"path": str(places.user), "there": True}
    assert len(content["problems"]) == 2


def test_config_finds_what_only_the_screen_would_stumble_over(places, capsys) -> None:
    places.user.write_text('tab = "nowhere"\n[columns.kernels]\nshow = ["bogus"]\n[columns.kernel]\nshow = ["max"]\n')
    assert main(["config", "--format", "json"]) == 0
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert [problem.partition(": ")[0] for problem in problems] == [str(places.user)] * 3
    assert "no tab 'nowhere'" in problems[0]
    assert "columns.kernels has no bogus" in problems[1]
    assert "there is no page kernel" in problems[2]


def test_config_writes_a_file_that_changes_nothing_and_leaves_one_alone(places, capsys) -> None:
    assert main(["config", "--path"]) == 0
    assert capsys.readouterr().out.strip() == str(places.user)
    assert main(["config", "--init"]) == 0
    assert not held(places).problems
    assert not held(places).origins
    written = places.user.read_text()
    for option in SCHEMA:
        assert f"# {option.key} = " in written
    # every example in it is right: taken at its word it is read without complaint
    places.user.write_text(
        "\n".join(line.removeprefix("# ") for line in written.splitlines() if " = " in line or line.startswith("# ["))
    )
    assert not held(places).problems
    assert not config.load(places.folder).problems
    before = places.user.read_text()
    assert main(["config", "--init"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert places.user.read_text() == before


def test_config_forgets_what_was_chosen(places, capsys) -> None:
    settings.keep(held(places), "theme", "light")
    assert main(["config", "--reset"]) == 0
    assert held(places).theme == "auto"
    assert main(["config", "--reset"]) == 0
    assert "nothing was chosen" in capsys.readouterr().out


def test_config_lists_actions_and_columns(places, capsys) -> None:
    places.user.write_text('[keys]\n"sort.reverse" = "c"\n')
    assert main(["config", "--keys", "--format", "json"]) == 0
    rows = {row["action"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["sort.reverse"]["keys"] == ["c"]
    assert rows["sort.reverse"]["changed"]
    assert rows["table.columns"]["keys"] == []
    assert main(["config", "--columns"]) == 0
    assert "columns.kernels" in capsys.readouterr().out


# --- what settings do to commands


def test_a_report_follows_the_settings_and_the_command_line_goes_first(places, capsys) -> None:
    places.project.write_text("ascii = true\nlimit = 1\ncolour = 1\n")
    assert main(["report", "--sample", "--section", "kernels"]) == 0
    said = capsys.readouterr()
    assert said.out.isascii()
    assert "there is no setting colour" in said.err
    short = len(said.out.splitlines())
    assert main(["report", "--sample", "--section", "kernels", "--limit", "5", "--no-ascii"]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == short + 4
    assert main(["report", "--sample", "--section", "kernels", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["run"]["traces"][0]["kernels"]) > 5, (
        "what scripts read is never cut by a setting"
    )


COUNTERS = str(recorded("ncu/scan_metrics_raw.csv.gz"))


@pytest.mark.parametrize(
    "command",
    [["rules", "S2"], ["report", "--sample", "--section", "kernels"], ["models"], ["open", COUNTERS], ["cache"]],
)
def test_a_file_that_can_not_be_read_is_said_once(places, command, capsys) -> None:
    places.project.write_text("theme =")
    assert main(command) == 0
    assert capsys.readouterr().err.count(f"{places.project}: Invalid value") == 1


@pytest.mark.parametrize(
    ("variables", "ascii"),
    [
        ({}, False), ({"LC_ALL": "C"}, True), ({"LANG": "POSIX"}, True), ({"LC_ALL": "C.UTF-8", "LANG": "C"}, False),
        ({"LC_CTYPE": "C.UTF-8", "LANG": "C"}, True), ({"LC_CTYPE": "C.UTF-8"}, False),
        ({"LANG": "de_DE.UTF-8"}, False),
        ({"LANG": "de_DE.ISO-8859-1@euro"}, True), ({"LANG": "de_DE"}, False),
        ({"LC_ALL": "C", "TRACETUI_ASCII": "false"}, False),
    ],
)  # fmt: skip
def test_a_locale_of_ascii_asks_for_ascii(variables, ascii):
    assert resolve({}, [], variables).ascii is ascii
