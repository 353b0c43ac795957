"""The README's screenshots, taken from the running application: ``make screenshots``."""

from __future__ import annotations

import asyncio
import re
import sys
from html import unescape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "screenshots"
A = ROOT / "samples" / "vim_tiny_fp32_bs4.pt.trace.json.gz"
B = ROOT / "samples" / "vim_tiny_fp16_bs4.pt.trace.json.gz"
SIZE = (80, 24)
SHOTS: dict[str, tuple[tuple[Path, ...], tuple[str, ...]]] = {
    "overview": ((A,), ()),
    "kernels": ((A,), ("2",)),
    "modules": ((A,), ("5", "down", "down", "plus")),
    "diff": ((A, B), ()),
}
"""Each screen: the runs it opens, the keys that lead to it."""


async def take(name: str) -> str:
    """One screen as SVG, without the fonts that it would fetch from elsewhere."""
    from tui_pilot import opened, press

    paths, keys = SHOTS[name]
    async with opened(*paths, size=SIZE, cache=False) as (app, pilot):
        await press(pilot, *keys)
        svg = app.export_screenshot(title=f"tracetui open {' '.join(path.name.split('_bs4')[0] for path in paths)}")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")


def words(svg: str) -> str:
    """What a person reads on a screenshot, without spaces."""
    texts = re.findall(r"<text [^>]*>(.*?)</text>", svg, re.DOTALL)
    return "".join(unescape(text) for text in texts).replace("\xa0", "").replace(" ", "")


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    for name in SHOTS:
        (FOLDER / f"{name}.svg").write_text(asyncio.run(take(name)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
