"""`tracetui serve`: shows the screen in a browser, through textual-serve."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from typing import TYPE_CHECKING, Any, cast

from tracetui.app.text.exit_codes import DONE, UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

LOCAL = ("localhost", "127.0.0.1", "::1")
INSTALL = "the browser view needs textual-serve: pip install 'tracetui[web]'"


def command_of(words: Sequence[str]) -> list[str]:
    """Returns the command that runs one browser's screen: the given words without the server's options.

    Args:
        words: of the command line, after ``tracetui``.
    """
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--host")
    own.add_argument("--port")
    at = list(words).index("serve")
    rest = own.parse_known_args(words[at + 1 :])[1]
    return [sys.executable, "-m", "tracetui.app", *words[:at], "open", *rest]


def serve(words: Sequence[str], *, host: str, port: int) -> int:
    """Serves until interrupted.

    Args:
        words: of the command line, after ``tracetui``.
        host: the address to listen on.
        port: and its port.

    Raises:
        UsageError: textual-serve is not installed, or the port is taken.
    """
    try:
        from textual_serve.server import Server
    except ImportError:
        raise UsageError(INSTALL) from None
    if host not in LOCAL:
        print(
            f"tracetui: warning: whoever reaches {host}:{port} can read and write files as you; "
            f"safer from elsewhere: ssh -L {port}:localhost:{port}",
            file=sys.stderr,
        )
    for name in ("SSH_CONNECTION", "TERM_PROGRAM"):  # a browser is not a slow connection
        os.environ.pop(name, None)

    class OneLineServer(Server):  # type: ignore[misc,unused-ignore]
        """Prints its address in one line, and answers only the page that it served itself."""

        async def on_startup(self, app: Any) -> None:
            """Prints the address."""
            name = f"[{host}]" if ":" in host else host
            print(f"http://{name}:{port} shows it in a browser; Ctrl+C ends it", flush=True)

        async def _make_app(self) -> Any:
            app = await super()._make_app()
            app.middlewares.append(guard(local=host in LOCAL))
            return app

        async def handle_index(self, request: Any) -> Any:
            """Returns the page, which loads its parts from its own address: through SSH that is another port."""
            self.public_url = f"{request.scheme}://{request.host}"
            return await super().handle_index(request)

        def initialize_logging(self) -> None:
            """Logs errors only."""

    try:
        OneLineServer(shlex.join(command_of(words)), host=host, port=port, title="tracetui").serve()
    except OSError as error:
        raise UsageError(f"{host}:{port}: {error.strerror or error}; --port takes another one") from error
    return DONE


def guard(*, local: bool) -> Callable[..., Any]:
    """Refuses pages of other sites, since a browser lets any of them talk to a server on this machine.

    Args:
        local: whether only names of this machine are accepted; any other name was forged to point here.
    """
    from aiohttp import web

    @web.middleware  # type: ignore[untyped-decorator,unused-ignore]
    async def check(request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        origin = request.headers.get("Origin")
        if origin is not None and origin != f"{request.scheme}://{request.host}":
            raise web.HTTPForbidden(text="another site's page can't use this")
        if local and (request.url.host or "") not in LOCAL:
            raise web.HTTPForbidden(text="this is only for this machine")
        answer = await handler(request)
        if request.path == "/" and isinstance(answer, web.Response) and answer.text:
            answer.text = re.sub(r"<link\s[^>]*googleapis[^>]*>", "", answer.text)  # nothing is fetched from elsewhere
        return answer

    return cast("Callable[..., Any]", check)
