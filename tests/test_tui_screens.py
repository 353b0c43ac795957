"""What each tab looks like, kept as text that a reviewer can read; `make screens` writes the files anew."""

import os
from pathlib import Path

import pytest
from keys_page import LETTERS, page, shared_letters
from sample_runs import SWEEP, VIM, VIM_FP16, recorded
from tui_pilot import opened, press, screen_text, settle

from tracetui.app.tabs import NAMES

ROOT = Path(__file__).resolve().parents[1]
SCREENS = ROOT / "tests" / "screens"
WRITING = bool(os.environ.get("TRACETUI_WRITE_SCREENS"))


def compare(path: Path, text: str) -> None:
    """Compares with what is on file, or puts it there."""
    if WRITING:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    assert path.exists(), f"{path.relative_to(ROOT)} is not there: make screens"
    assert text == path.read_text(encoding="utf-8"), f"{path.name} has changed: make screens"


@pytest.mark.parametrize("tab", NAMES)
async def test_tab(tab):
    paths = {"diff": (VIM, VIM_FP16), "sweep": (SWEEP,)}.get(tab, (VIM,))
    async with opened(*paths, tab=tab, size=(80, 24)) as (app, pilot):
        for size in ((80, 24), (120, 40)):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            text = screen_text(app) + "\n"
            assert len(text.splitlines()) == size[1]
            assert max(map(len, text.splitlines())) <= size[0]
            compare(SCREENS / f"{tab}-{size[0]}x{size[1]}.txt", text)


@pytest.mark.parametrize(
    ("name", "pressed", "options"),
    [
        ("launches", ["enter"], {"tab": "kernels"}),
        ("histogram", ["enter", "D", "L"], {"tab": "kernels"}),
        ("icicle", ["D", "j", "j"], {"tab": "modules"}),
        ("details", ["d"], {"tab": "kernels"}),
        ("help", ["question_mark"], {"tab": "modules"}),
        ("columns", ["c"], {"tab": "kernels"}),
        ("kernels-by-category", ["b"], {"tab": "kernels"}),
        ("kernels-per-step", ["u"], {"tab": "kernels"}),
        ("operators-by-class", ["b", "b"], {"tab": "operators"}),
        ("narrow-overview", [], {"size": (60, 20)}),
        ("narrow-kernels", [], {"tab": "kernels", "size": (60, 20)}),
        ("ascii-overview", [], {"ascii": True}),
        ("filtered", [], {"tab": "kernels", "filter": "gemm >5%"}),
        ("no-second-run", [], {"tab": "diff"}),
    ],
)
async def test_screen(name, pressed, options):
    async with opened(VIM, **options) as (app, pilot):
        await press(pilot, *pressed)
        text = screen_text(app) + "\n"
        compare(SCREENS / f"{name}.txt", text)


async def test_the_list_of_runs():
    async with opened(VIM, VIM_FP16, SWEEP) as (app, pilot):
        await press(pilot, "A")
        compare(SCREENS / "runs.txt", screen_text(app) + "\n")


async def test_ranks():
    async with opened(recorded("chrome/ddp_vit_small_2ranks")) as (app, _):
        text = screen_text(app) + "\n"
        compare(SCREENS / "ranks.txt", text)


def test_the_page_of_keys():
    text = page()
    compare(ROOT / "docs" / "reference" / "keys.md", text)


def test_a_letter_of_several_commands_is_listed_with_what_these_have_in_common():
    assert shared_letters() == set(LETTERS)
