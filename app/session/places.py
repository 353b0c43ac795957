"""Lists the names that the palette can go to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.app.text.names import tell_apart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracetui.app.session.session import Session


def places(session: Session) -> Iterator[tuple[str, str, str, str]]:
    """Returns (tab, noun, name, label) of the kernels and modules in scope."""
    from tracetui.analysis.kernels import kernels
    from tracetui.analysis.modules import modules

    selection = session.selection()
    table = session.cached("kernels", lambda: kernels(selection))
    for name, short in tell_apart(table).select("name", "short_name").iter_rows():
        yield "kernels", "kernel", str(name), str(short or name)
    tree = session.cached("modules", lambda: modules(selection))
    for path in tree["path"].to_list():
        if path:
            yield "modules", "module", str(path), str(path)
