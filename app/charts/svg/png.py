"""SVG as PNG, by CairoSVG, which is an extra."""

from __future__ import annotations

from tracetui.app.text.exit_codes import UsageError

SCALE = 1.5
"""A slide of 1280 by 720 becomes 1920 by 1080."""


def png(svg: str) -> bytes:
    """The picture in pixels. Nothing that it names is fetched.

    Raises:
        UsageError: CairoSVG or the library that it needs is missing.
    """
    try:
        import cairosvg
    except ImportError:
        raise UsageError("PNG needs CairoSVG: pip install 'tracetui[png]'") from None
    except OSError:  # cairocffi found no libcairo
        raise UsageError("PNG needs the library cairo (Debian and Ubuntu: apt install libcairo2)") from None
    content: bytes = cairosvg.svg2png(bytestring=svg.encode(), scale=SCALE, unsafe=False)
    return content
