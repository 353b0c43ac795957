"""What the documentation shows is what the program shows; where not, ``make docs`` writes it anew."""

from __future__ import annotations

import experiments_page
import pytest
from generated_docs import (
    QUERY,
    README,
    REPORT,
    RULES,
    SCREENS,
    SCREENSHOTS,
    SETTINGS,
    SHOTS,
    SIZE,
    query_page,
    readme,
    report_page,
    rules_page,
    screenshot,
    settings_page,
    title,
    words,
)
from report_page import documented, keys_of

from tracetui.analysis.tables.registry import TABLES


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


def test_the_readme_shows_what_its_command_prints() -> None:
    text = readme()
    assert "Waits for the CPU, not the GPU" in text
    assert README.read_text(encoding="utf-8") == text, "run `make docs`"


def test_the_page_of_rules_is_what_the_rules_say() -> None:
    assert RULES.read_text(encoding="utf-8") == rules_page(), "run `make docs`"


def test_the_pages_of_proofs_are_what_was_recorded_and_what_is_read() -> None:
    assert experiments_page.PAGE.read_text(encoding="utf-8") == experiments_page.page(), "run `make docs`"
    assert experiments_page.PROOFS.read_text(encoding="utf-8") == experiments_page.proofs_page(), "run `make docs`"


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
