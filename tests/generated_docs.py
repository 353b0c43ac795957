"""What the documentation shows of the program, taken from the program: ``make docs``."""

import asyncio
import contextlib
import io
import re
import sys
from html import unescape
from pathlib import Path

import experiments_page
import run_json_page
from by_schema import KEYS, all_keys
from report_page import PAGE as REPORT
from report_page import report_page
from settings_page import settings_page

from tracetui.app.cli.commands.query import frames_markdown
from tracetui.app.cli.commands.reference.rules import rules_page
from tracetui.app.cli.main import main as tracetui
from tracetui.app.text.pictures import without_fonts

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
REFERENCE = ROOT / "docs" / "reference"
RULES = REFERENCE / "rules.md"
SETTINGS = REFERENCE / "settings.md"
QUERY = REFERENCE / "query.md"
SCREENSHOTS = ROOT / "docs" / "screenshots"
SCREENS = ROOT / "tests" / "screens"
QUERY_HEAD = """\
# Frames and columns

What a [query](../query.md) can ask for. Made from `analysis/query` and `analysis/tables` by `make docs`;
`tracetui query --schema --format markdown` prints the same.

"""
A, B = ROOT / "samples" / "vim_tiny", ROOT / "samples" / "vim_tiny_fp16"
SIZE = (80, 24)
SHOTS: dict[str, tuple[tuple[Path, ...], tuple[str, ...]]] = {
    "overview": ((A,), ()),
    "findings": ((A,), ("8",)),
    "kernels": ((A,), ("2",)),
    "modules": ((A,), ("5", "down", "down", "plus")),
    "timeline": ((A,), ("T",)),
    "diff": ((A, B), ()),
}
"""Each screen: the runs it opens, the keys that lead to it."""
RECORDING = SCREENSHOTS / "recording.svg"
FRAMES = (
    (),
    ("8",),
    ("enter",),
    ("2",),
    ("slash", *"gemm"),
    ("enter", "enter"),
    ("T", "w", "w"),
    ("ctrl+p", *"roofline", "enter"),
)
"""The keys that lead from each picture of the recording to the next."""
FRAME_SECONDS = 3


def title(name: str) -> str:
    """The command that a screenshot bears above it."""
    paths, _ = SHOTS[name]
    return f"tracetui open {' '.join(path.name.split('_bs4')[0] for path in paths)}"


async def screenshot(name: str, *, cache: bool = False) -> str:
    """One screen as SVG, without the fonts that it would fetch from elsewhere."""
    from tui_pilot import opened, press

    paths, keys = SHOTS[name]
    async with opened(*paths, size=SIZE, cache=cache) as (app, pilot):
        await press(pilot, *keys)
        svg = app.export_screenshot(title=title(name))
    return without_fonts(svg)


async def recording() -> str:
    """The pictures of `FRAMES` one after another, in one SVG with the frame of the first around them."""
    from tui_pilot import opened, press

    pictures = []
    async with opened(A, size=SIZE, cache=False) as (app, pilot):
        for keys in FRAMES:
            await press(pilot, *keys)
            pictures.append(without_fonts(app.export_screenshot(title=title("overview"))))
    inside = re.compile(r'(<g transform="translate\(9, 41\)".*</g>)\s*</svg>', re.DOTALL)
    styles: dict[str, str] = {}
    groups = []
    for svg in pictures:
        names = {
            name: styles.setdefault(style, f"s{len(styles)}")
            for name, style in re.findall(r"\.(terminal-\d+-r\d+) \{ (.*?) \}", svg)
        }
        for name, short in names.items():
            svg = svg.replace(f'class="{name}"', f'class="{short}"')
        (group,) = inside.findall(svg)
        group = re.sub(r' (clip-path|shape-rendering)="[^"]*"', "", group)
        groups.append(re.sub(r'"terminal-\d+-(\w+)"', r'"\1"', group))
    shown = f"visibility: hidden; animation: shown {FRAME_SECONDS * len(groups)}s step-end infinite"
    css = [
        ".matrix { font: 20px monospace; font-variant-east-asian: full-width }",
        ".title { font: bold 18px arial }",
        "rect { shape-rendering: crispEdges }",
        f".shot {{ {shown} }} .shot:first-of-type {{ visibility: visible }}",
        f"@keyframes shown {{ 0% {{ visibility: visible }} {100 / len(groups)}%, 100% {{ visibility: hidden }} }}",
        *(f".{name} {{ {style} }}" for style, name in styles.items()),
    ]
    frame = re.sub(r"<style>.*?</style>\s*<defs>.*?</defs>", "", inside.sub("", pictures[0]), flags=re.DOTALL)
    frame = re.sub(r'"terminal-\d+-title"', '"title"', frame).replace(">", f"><style>{' '.join(css)}</style>", 1)
    shots = "".join(
        f'<g class="shot" style="animation-delay: {FRAME_SECONDS * place}s">{group}</g>\n'
        for place, group in enumerate(groups)
    )
    return f"{frame.rstrip()}\n<g>{shots}</g></svg>\n"


def words(svg: str) -> str:
    """What a person reads on a screenshot, without spaces."""
    texts = re.findall(r"<text [^>]*>(.*?)</text>", svg, re.DOTALL)
    return "".join(unescape(text) for text in texts).replace("\xa0", "").replace(" ", "")


def readme() -> str:
    """The README with what its command prints now."""

    def shown(match: re.Match[str]) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            tracetui([*match[1].split(), "--no-cache"])
        return f"`tracetui {match[1]}` prints:\n\n```text\n{out.getvalue()}```"

    text, count = re.subn(
        r"`tracetui (report --sample [^`]*)` prints:\n\n```text\n.*?```",
        shown,
        README.read_text("utf-8"),
        flags=re.DOTALL,
    )
    assert count == 1
    return text


def query_page() -> str:
    """docs/reference/query.md: the frames and columns as they are declared now."""
    return QUERY_HEAD + frames_markdown()


def main() -> int:
    README.write_text(readme(), encoding="utf-8")
    RULES.write_text(rules_page(), encoding="utf-8")
    SETTINGS.write_text(settings_page(), encoding="utf-8")
    REPORT.write_text(report_page(), encoding="utf-8")
    experiments_page.PAGE.write_text(experiments_page.page(), encoding="utf-8")
    run_json_page.PAGE.write_text(run_json_page.page(), encoding="utf-8")
    run_json_page.SAMPLES.write_text(run_json_page.samples_page(), encoding="utf-8")
    experiments_page.PROOFS.write_text(experiments_page.proofs_page(), encoding="utf-8")
    QUERY.write_text(query_page(), encoding="utf-8")
    KEYS.write_text(all_keys(), encoding="utf-8")
    SCREENSHOTS.mkdir(exist_ok=True)
    pictures = {SCREENSHOTS / f"{name}.svg": asyncio.run(screenshot(name)) for name in SHOTS}
    for file, svg in {**pictures, RECORDING: asyncio.run(recording())}.items():
        # the same screen is drawn with other ids each time
        if not file.exists() or words(file.read_text(encoding="utf-8")) != words(svg):
            file.write_text(svg, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
