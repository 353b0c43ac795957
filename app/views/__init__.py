"""The views of the tabs, one module per tab: each runs an analysis and shows its frame."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tracetui.app import tabs

if TYPE_CHECKING:
    from tracetui.app.views.common.base import View


def view_class(tab: str) -> type[View]:
    """Imports and returns the view of a tab; imported late, because views import Polars.

    Raises:
        KeyError: there is no such tab.
    """
    module, _, name = tabs.BY_NAME[tab].view.partition(":")
    found: type[View] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    return found
