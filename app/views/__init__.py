"""One module per tab: an analysis function and a table that shows its frame."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tracetui.app import tabs

if TYPE_CHECKING:
    from tracetui.app.views.common.base import View


def view_class(tab: str) -> type[View]:
    """The view of a tab; imported only now, because views bring Polars with them.

    Raises:
        KeyError: there is no such tab.
    """
    module, _, name = tabs.BY_NAME[tab].view.partition(":")
    found: type[View] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    return found
