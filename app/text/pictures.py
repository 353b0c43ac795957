"""Pictures that need nothing from elsewhere."""

from __future__ import annotations

import re

_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def without_fonts(svg: str) -> str:
    """Returns Textual's picture of the screen in the viewer's own font, not in one that it would fetch from a host."""
    return _FONTS.sub("", svg).replace("Fira Code, monospace", "monospace")
