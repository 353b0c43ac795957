"""The README's screenshots show what the application shows."""

from __future__ import annotations

import pytest
from screenshots import FOLDER, ROOT, SHOTS, take, words


@pytest.mark.parametrize("name", SHOTS)
async def test_a_screenshot_is_what_the_screen_shows(name: str) -> None:
    shown = words(await take(name))
    assert len(shown) > 500
    assert words((FOLDER / f"{name}.svg").read_text(encoding="utf-8")) == shown, "run `make screenshots`"


@pytest.mark.parametrize("name", SHOTS)
def test_the_readme_shows_it(name: str) -> None:
    assert f"(docs/screenshots/{name}.svg)" in (ROOT / "README.md").read_text(encoding="utf-8")
