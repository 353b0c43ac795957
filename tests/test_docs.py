"""The documentation: its code runs, its links lead somewhere, it shows what the program shows, and names every key."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import experiments_page
import man_page
import pytest
import run_json_page
from as_json import report
from generated_docs import (
    QUERY,
    README,
    RECORDING,
    REPORT,
    RULES,
    SCREENS,
    SCREENSHOTS,
    SETTINGS,
    SHOTS,
    SIZE,
    query_page,
    readme,
    recording,
    report_page,
    rules_page,
    screenshot,
    settings_page,
    title,
    words,
)
from report_page import documented, keys_of

from tracetui.analysis.kernels import kernels
from tracetui.analysis.report.report import SECTIONS
from tracetui.analysis.schemas.outputs import json_schema
from tracetui.analysis.selection import select
from tracetui.analysis.tables.registry import TABLES
from tracetui.app.cli.command import COMMANDS, build_parser, chosen
from tracetui.app.cli.commands.completion import known_commands
from tracetui.app.cli.commands.reference.skill import MOST_BYTES, skill
from tracetui.app.cli.main import main
from tracetui.app.cli.options import SAMPLES
from tracetui.parsers import open_path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "samples" / "README.md",
]
SAMPLE = ROOT / "samples" / SAMPLES["vim_tiny"]


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target, place in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
            if not target.startswith("https://"):
                file = page.parent / target if target else page
                assert file.exists(), f"{page.name}: {target}"
                assert not place or place in _places(file), f"{page.name}: {target}#{place}"


def _places(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_notebook_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    (tmp_path / "prof_output").mkdir()
    shutil.copy(SAMPLE / "trace.pt.trace.json.gz", tmp_path / "prof_output")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACETUI_CACHE_MB", "0")
    page = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 17
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    assert names["shown"].tables("kernels")["kernels"].height == kernels(select(names["trace"])).height
    assert 'sandbox="allow-scripts"' in names["shown"]._repr_html_()
    assert "Host functions" in names["shown"].page("host_functions")._repr_html_()
    assert len(names["run"].traces) == 1
    assert len(names["frames"]["device"]) == names["trace"].device.height


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {key for key, inner in value.items() for key in (key, *_keys(inner))}
    return {key for item in value for key in _keys(item)} if isinstance(value, list) else set()


def test_every_key_of_the_report_is_described() -> None:
    page = (ROOT / "docs" / "reference" / "report.md").read_text(encoding="utf-8")
    named = set(re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"`([^`\n]+)`", page))))
    found = report(open_path(SAMPLE, cache=False))
    for trace in found["run"]["traces"]:
        trace["source"]["captured"] = {}  # its keys are the recorder's
        trace["counts"] = {}  # its keys are the sections
    assert _keys(found) - named == set()
    assert set(SECTIONS) - named == set()


def test_every_option_is_in_the_docs() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    parsers = {name: next(a for a in build_parser(name)._actions if a.dest == "command").choices for name in COMMANDS}
    options = {
        option
        for name, choices in parsers.items()
        for action in (choices or {})[name]._actions
        for option in action.option_strings
        if option.startswith("--") and option != "--help"
    }
    assert len(options) > 15
    assert {option for option in options if option not in pages} == set()


@pytest.mark.parametrize("name", SHOTS)
async def test_a_screenshot_is_what_the_screen_shows(name: str) -> None:
    """A tab as it opens is compared with its recorded text, which test_tui_screens holds the program to."""
    _, pressed = SHOTS[name]
    if len(pressed) > 1:
        shown = words(await screenshot(name, cache=True))
    else:
        shown = title(name) + (SCREENS / f"{name}-{SIZE[0]}x{SIZE[1]}.txt").read_text(encoding="utf-8")
    assert len(shown) > 500
    picture = words((SCREENSHOTS / f"{name}.svg").read_text(encoding="utf-8"))
    assert letters(picture) == letters(shown), "run `make docs`"


def letters(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("name", SHOTS)
def test_the_readme_has_the_screenshot(name: str) -> None:
    assert f"(docs/screenshots/{name}.svg)" in README.read_text(encoding="utf-8")


async def test_the_recording_is_what_the_screen_shows() -> None:
    picture = RECORDING.read_text(encoding="utf-8")
    assert len(picture) < 300_000
    assert words(picture) == words(await recording()), "run `make docs`"


def test_the_manual_page_is_what_the_parser_says() -> None:
    assert man_page.PAGE.read_text(encoding="utf-8") == man_page.page(), "run `make man`"


def test_the_readmes_commands_work_in_order(tmp_path: Path) -> None:
    """Those after the set-up, in a fresh shell whose environment is the one that runs the tests."""
    blocks = re.findall(r"```sh\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines() if not line.startswith("python3 -m venv")]
    assert len(commands) >= 4
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    active = tmp_path / ".venv" / "bin" / "activate"
    active.parent.mkdir(parents=True)
    active.write_text(f'PATH="{Path(sys.executable).parent}:$PATH"\n')
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "TRACETUI_CACHE_MB": "0"}
    shell = ["bash", "-euo", "pipefail", "-c", "\n".join(commands)]
    done = subprocess.run(shell, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "tracetui report: vim_tiny" in done.stdout
    assert "vim_tiny_fp16" in done.stdout


def test_the_readme_shows_what_its_command_prints() -> None:
    text = readme()
    assert "Waits for the CPU, not the GPU" in text
    assert README.read_text(encoding="utf-8") == text, "run `make docs`"


def test_the_page_of_rules_is_what_the_rules_say() -> None:
    assert RULES.read_text(encoding="utf-8") == rules_page(), "run `make docs`"


def test_the_pages_of_proofs_are_what_was_recorded_and_what_is_read() -> None:
    assert experiments_page.PAGE.read_text(encoding="utf-8") == experiments_page.page(), "run `make docs`"
    assert experiments_page.PROOFS.read_text(encoding="utf-8") == experiments_page.proofs_page(), "run `make docs`"
    assert run_json_page.SAMPLES.read_text(encoding="utf-8") == run_json_page.samples_page(), "run `make docs`"


def test_the_page_of_settings_is_what_the_schema_says() -> None:
    assert SETTINGS.read_text(encoding="utf-8") == settings_page(), "run `make docs`"


def test_the_page_of_queries_has_every_frame() -> None:
    assert QUERY.read_text(encoding="utf-8") == query_page(), "run `make docs`"


def test_the_page_of_the_report_is_what_the_tables_declare() -> None:
    text = REPORT.read_text(encoding="utf-8")
    assert text == report_page(), "run `make docs`"
    alike = {"diff_modules": "diff_operators"}  # the page says so
    assert all(keys_of(TABLES[one]) == keys_of(TABLES[other]) for one, other in alike.items())
    shown = documented(text)
    assert len(set(shown)) == len(shown)
    assert {*shown, *alike} == {name for name, table in TABLES.items() if table.data}


def test_it_is_short_and_names_every_command(capsys) -> None:
    assert main(["reference", "skill"]) == 0
    page = capsys.readouterr().out
    assert page == skill()
    assert len(page.encode()) < MOST_BYTES
    for command in known_commands():
        if command.name:
            assert f"- `{command.name}`: {command.help}" in page


def test_its_commands_parse() -> None:
    examples = [text for text in re.findall(r"`tracetui ([^`]*)`", skill()) if " " in text]
    assert len(examples) >= 8
    for example in examples:
        command = shlex.split(example.replace("…", "1"))
        if "--" in command:
            command = command[: command.index("--")]
        name, command = chosen(command)
        build_parser(name).parse_args(command)


def test_the_keys_that_it_names_are_there() -> None:
    schemas = (
        str(json_schema("report")) + str(json_schema("diff")) + str(json_schema("ranks")) + str(json_schema("check"))
    )
    for name in re.findall(r"`([a-z][a-z_.]+)`", skill()):
        for key in name.removeprefix("trace.").removeprefix("run.").split("."):
            if key not in ("tracetui", "other_work", "not_comparable", "invalid", "light", "rich", "both", "clean",
                           "recorded", "trace", "host", "device", "start", "duration", "done",
                           ) and key not in {c.name for c in known_commands()}:  # fmt: skip
                assert f"'{key}'" in schemas, key
