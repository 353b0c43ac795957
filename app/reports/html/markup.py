"""Text as markup: what is safe inside an element and inside quotes."""

from __future__ import annotations

from html import escape

from tracetui.app.text.fitting import printable


def said(text: str) -> str:
    """A name or sentence: neither markup nor a control character of it is left to work."""
    return escape(printable(text), quote=True)


def element(name: str, inside: str, **attributes: str) -> str:
    """An element around markup; attributes that are empty are left out, ``class_`` and ``data_v`` are spelled so."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{said(value)}"' for key, value in attributes.items() if value
    )
    return f"<{name}{given}>{inside}</{name}>"
