"""Themes: every text can be read, and nothing is said by colour alone."""

import itertools
import re

import pytest
from sample_runs import FP16, FP32
from textual.color import Color
from textual.filter import ANSIToTruecolor
from textual.widgets import OptionList
from tui_pilot import opened, press, screen_text, write

from tracetui.app.settings import schema as settings
from tracetui.app.settings import theme
from tracetui.app.settings.theme import theme_name

# what terminals make of the sixteen colours
XTERM = [
    "#000000", "#cd0000", "#00cd00", "#cdcd00", "#0000ee", "#cd00cd", "#00cdcd", "#e5e5e5",
    "#7f7f7f", "#ff0000", "#00ff00", "#ffff00", "#5c5cff", "#ff00ff", "#00ffff", "#ffffff",
]  # fmt: skip
LEGIBLE = 4.5
RGB = ("dark", "light", "high-contrast")
DRAWN = re.compile(r"[\s▀-▟─-╿⠀-⣿▲▼◆●·]*")
"""Characters that are pictures; they are told by their shape."""


def contrast(a: Color, b: Color) -> float:
    """As WCAG 2 defines it."""

    def luminance(color: Color) -> float:
        parts = [value / 255 for value in (color.r, color.g, color.b)]
        red, green, blue = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in parts]
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def color_of(found, default: Color) -> Color:
    if found is None or found.is_default:
        return default
    if found.triplet is not None:
        return Color(*found.triplet)
    return Color.parse(XTERM[found.number])


def unreadable(app, fore: Color, back: Color, least: float = LEGIBLE) -> list[tuple[float, str]]:
    """Texts on the screen whose contrast is less, with it."""
    poor = []
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            if DRAWN.fullmatch(segment.text):
                continue
            style = segment.style
            colors = color_of(style.color, fore), color_of(style.bgcolor, back)
            front, behind = colors[::-1] if style.reverse else colors
            if style.dim:
                front = behind.blend(front, 0.66)
            if (found := contrast(front, behind)) < least:
                poor.append((round(found, 2), segment.text))
    return poor


def preferred(**values):
    return settings.Settings(**values)


walked: dict[str, tuple[dict[str, list[tuple[float, str]]], list[str]]] = {}


async def walk(name: str) -> tuple[dict[str, list[tuple[float, str]]], list[str]]:
    """Goes through all tabs and some dialogs under a theme, once: what can't be read after which keys, and the tabs."""
    if name in walked:
        return walked[name]
    chosen = next(known for known in theme.ALL if known.name == name)
    fore, back = ("#000000", "#ffffff") if name == "ansi-light" else ("#e5e5e5", "#000000")
    if not chosen.ansi:
        fore, back = chosen.foreground, chosen.background
    colors = Color.parse(fore), Color.parse(back)
    least = 7 if name == "high-contrast" else LEGIBLE
    async with opened(FP32, FP16, tab="overview", settings=preferred(theme=name)) as (app, pilot):
        assert app.theme == name
        poor, said = {}, []
        for key in "1234567890T":
            await press(pilot, key)
            poor[key] = unreadable(app, *colors, least)
            said.append(screen_text(app))
        for keys in (
            ("plus", "plus", "plus", "i"), ("5", "i"), ("2", "d", "slash"), ("escape", "c"),
            ("escape", "question_mark"), ("escape", "ctrl+p"),
        ):  # fmt: skip
            await press(pilot, *keys)
            poor[" ".join(keys)] = unreadable(app, *colors, least)
    walked[name] = poor, said
    return walked[name]


@pytest.mark.parametrize("name", theme.THEMES)
async def test_every_text_can_be_read(name) -> None:
    poor, _ = await walk(name)
    assert len(poor) == 17
    assert {keys: texts for keys, texts in poor.items() if texts} == {}


@pytest.mark.parametrize("name", RGB)
def test_colours_of_a_theme_can_be_read_on_each_of_its_backgrounds(name) -> None:
    chosen = next(known for known in theme.ALL if known.name == name)
    texts = [chosen.foreground, chosen.accent, chosen.secondary, chosen.warning, chosen.error, chosen.success]
    texts += [value for key, value in chosen.variables.items() if re.fullmatch(r"muted|lane-[a-z]+", key)]
    for text, back in itertools.product(texts, (chosen.background, chosen.panel)):
        least = 3 if text.startswith("#afaf5f") and back == chosen.panel else LEGIBLE
        assert contrast(Color.parse(text), Color.parse(back)) >= least, (text, back)
    for lane in {key.split("-")[1] for key in chosen.variables if key.startswith("lane-")}:
        pair = chosen.variables[f"lane-{lane}-text"], chosen.variables[f"lane-{lane}-slice"]
        assert contrast(*map(Color.parse, pair)) >= 7, lane


async def test_a_theme_says_the_same_as_the_others() -> None:
    """No letter or sign differs, so nothing that one theme says is lost in another."""
    said = {name: (await walk(name))[1] for name in theme.THEMES}
    for name, screens in said.items():
        assert screens == said["dark"], name


@pytest.mark.parametrize(
    ("wanted", "color", "slow", "light", "found"),
    [
        ("auto", "auto", False, False, "dark"),
        ("auto", "auto", False, True, "dark"),
        ("auto", "auto", True, False, "ansi"),
        ("auto", "16", False, False, "ansi"),
        ("auto", "16", False, True, "ansi-light"),
        ("light", "auto", True, False, "light"),
        ("light", "16", False, False, "ansi-light"),
        ("high-contrast", "never", False, False, "ansi"),
        ("ansi-light", "truecolor", False, False, "ansi-light"),
    ],
)
def test_which_theme_it_is(monkeypatch, wanted, color, slow, light, found) -> None:
    monkeypatch.setenv("COLORFGBG", "0;15" if light else "15;0")
    assert theme_name(wanted, color, low_bandwidth=slow) == found


async def test_the_palette_changes_the_theme_at_once() -> None:
    async with opened(FP32, tab="kernels") as (app, pilot):
        assert app.theme == "dark"
        for name in theme.THEMES:
            app.action_theme(name)
            await pilot.pause()
            assert app.theme == name
            assert f"Theme: {name}" in screen_text(app)
            ansi = not any(isinstance(each, ANSIToTruecolor) and each.enabled for each in app._filters)
            assert ansi == name.startswith("ansi")
        app.action_next_theme()
        assert app.theme == "dark"
        await press(pilot, "ctrl+p")
        await write(pilot, "theme high")
        await press(pilot, "enter")
        assert app.theme == "high-contrast"


@pytest.mark.parametrize("without_colors", [True, False])
async def test_lists_show_where_one_is_without_colours_of_their_own(monkeypatch, without_colors) -> None:
    if without_colors:
        monkeypatch.setenv("NO_COLOR", "1")
    async with opened(FP32, tab="kernels") as (app, pilot):
        app.action_theme("ansi")
        await pilot.press("c")
        await pilot.pause()
        (options,) = app.screen.query(OptionList)
        assert options.get_visual_style("option-list--option", "option-list--option-highlighted").underline


async def test_a_theme_of_more_colours_than_there_are_is_refused_with_a_reason() -> None:
    async with opened(FP32, tab="kernels", color="16") as (app, pilot):
        app.action_theme("light")
        await pilot.pause()
        assert app.theme == "ansi-light"
        assert "light needs more colours than there are" in screen_text(app)


@pytest.mark.parametrize(
    ("term", "colorterm", "found"),
    [
        ("linux", "", "16"), ("screen", "", "16"), ("xterm-16color", "", "16"), ("xterm-256color", "", "auto"),
        ("xterm-kitty", "", "auto"), ("linux", "truecolor", "auto"), ("tmux-256color", "24bit", "auto"),
        ("vt100", "", "never"), ("vt220-8bit", "", "never"), ("xterm-mono", "", "never"),
        ("vt100", "truecolor", "auto"),
    ],
)  # fmt: skip
def test_a_terminal_of_sixteen_colours_gets_the_theme_for_them(monkeypatch, term, colorterm, found) -> None:
    from textual import constants

    monkeypatch.setattr(constants, "COLOR_SYSTEM", "auto")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLORTERM", colorterm)
    assert theme.settle_color("auto") == found


def test_an_empty_no_color_is_none(monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert theme.settle_color("auto") == "auto"
