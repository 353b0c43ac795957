"""`tracetui serve`: shows the screen in a browser, through textual-serve."""

from __future__ import annotations

import argparse
import asyncio
import hmac
import json
import os
import re
import secrets
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any, cast

from tracetui.app import tabs
from tracetui.app.cli.command import option, switch
from tracetui.app.cli.options import Common, Covered, Looks, Recordings, check_there
from tracetui.app.cli.values import input_path, port
from tracetui.app.settings.state import OFF_VARIABLE
from tracetui.app.text.exit_codes import DONE, UsageError

LOCAL = ("localhost", "127.0.0.1", "::1")
MOST_SESSIONS = 8
"""How many browsers may look at once; each is a process with the recording in memory."""
PLACES = BoundedSemaphore(MOST_SESSIONS)
COOKIE = "tracetui-token"
FOCUS = """<script>
(function wait() {
  const keys = document.querySelector(".xterm-helper-textarea");
  if (keys) { keys.focus(); } else { setTimeout(wait, 50); }
})();
</script>
</body>"""
"""Keys reach the screen without a click."""
LEAVING_SECONDS = 2.0
"""How long a screen may take to end by itself, once its browser has left."""
_MOST = 2_000
"""Columns or rows that a browser may ask for: a picture of them all is a few megabytes."""
INSTALL = "the browser view needs textual-serve: pip install 'tracetui[web]'"


@dataclass(kw_only=True)
class Options(Looks, Recordings, Covered, Common):
    """Serve the screen to a browser on this machine, at an address with a token. Nothing is written or opened besides
    what is given. From elsewhere, go through SSH (ssh -L 8000:localhost:8000).
    """

    paths: list[Path] = option(
        nargs="*", type=input_path, metavar="PATH", help="a trace or a folder; a second one is B"
    )
    tab: str | None = option("--tab", metavar="NAME", help="the tab to start on", words=lambda: tabs.NAMES)
    filter: str | None = option("--filter", metavar="TEXT", help="start with this filter")
    host: str = option("--host", default="localhost", help="the address to listen on (default: %(default)s)", last=True)
    port: int = option(
        "--port",
        type=port,
        default=8000,
        metavar="N",
        help="the port to listen on; 0 for any free one (default: %(default)s)",
        last=True,
    )
    no_token: bool = switch("--no-token", help="an address without a token, open to all who reach it", last=True)
    allow_write: bool = switch(
        "--allow-write", help="the browser may write files, open others, and is remembered", last=True
    )
    words: tuple[str, ...] = ()
    """Of the command line, after ``tracetui``."""


def command_of(words: Sequence[str]) -> list[str]:
    """Returns the command of one browser's screen: the words after ``tracetui`` without the server's options."""
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--host")
    own.add_argument("--port")
    own.add_argument("--no-token", action="store_true")
    own.add_argument("--allow-write", action="store_true")
    at = list(words).index("serve")
    rest = own.parse_known_args(words[at + 1 :])[1]
    return [sys.executable, "-m", "tracetui.app", *words[:at], "open", *rest]


def run(options: Options) -> int:
    """Serves until interrupted.

    Raises:
        UsageError: textual-serve is not installed, or the port is taken.
    """
    check_there(options.given_paths())
    from tracetui.parsers.written import READ_ONLY_VARIABLE

    try:
        from aiohttp import web
        from textual_serve.server import Server
    except ImportError:
        raise UsageError(INSTALL) from None
    host, port = options.host, options.port
    token = None if options.no_token else secrets.token_urlsafe(24)
    if host not in LOCAL:
        who = f"reaches {host}:{port}" if token is None else f"listens on the way to {host}:{port}"
        what = "read and write files as you" if options.allow_write else "see this recording"
        print(
            f"tracetui: warning: whoever {who} can {what}; safer from elsewhere: ssh -L {port}:localhost:{port}",
            file=sys.stderr,
        )
    if not options.allow_write:
        os.environ[READ_ONLY_VARIABLE] = os.environ[OFF_VARIABLE] = "1"
    for name in ("SSH_CONNECTION", "TERM_PROGRAM"):  # a browser is not a slow connection
        os.environ.pop(name, None)

    class OneLineServer(Server):  # type: ignore[misc,unused-ignore]
        """Prints its address in one line, and answers only the page that it served itself."""

        async def on_startup(self, app: Any) -> None:
            """Prints the address."""
            name = f"[{host}]" if ":" in host else host
            secret = f"/?token={token}" if token else ""
            print(f"http://{name}:{port}{secret} shows it in a browser; Ctrl+C ends it", flush=True)

        async def _make_app(self) -> Any:
            app = await super()._make_app()
            app.middlewares.append(guard(local=host in LOCAL, token=token))
            return app

        async def handle_index(self, request: Any) -> Any:
            """Returns the page, which loads its parts from its own address: through SSH that is another port."""
            self.public_url = f"{request.scheme}://{request.host}"
            return await super().handle_index(request)

        async def handle_websocket(self, request: Any) -> Any:
            """Starts a screen, if not too many are open and it is of a size that can be shown."""
            for name in ("width", "height"):
                with suppress(ValueError):  # of what is no number the server takes its own
                    if not 0 < int(request.query.get(name, "")) < _MOST:
                        raise web.HTTPBadRequest(text=f"a screen has 1 to {_MOST - 1} columns and rows")
            if not web.WebSocketResponse().can_prepare(request):
                raise web.HTTPBadRequest(text="no WebSocket was asked for")
            if not PLACES.acquire(blocking=False):
                raise web.HTTPServiceUnavailable(text=f"{MOST_SESSIONS} browsers look already; close one")
            try:
                return await super().handle_websocket(request)
            finally:
                PLACES.release()

        async def _process_messages(self, websocket: Any, app_service: Any) -> None:
            """Takes messages as far as they are what a browser sends, until it leaves; then its screen ends soon."""
            app_service.remote_write_bytes = while_there(app_service.remote_write_bytes)
            try:
                await super()._process_messages(Understood(websocket), app_service)
            finally:
                later = asyncio.get_running_loop().call_later
                later(LEAVING_SECONDS, kill, app_service._process)
                if (connection := websocket._req.transport) is not None:
                    later(LEAVING_SECONDS, connection.abort)  # else what nobody takes is waited with for ever

        def initialize_logging(self) -> None:
            """Logs errors only."""

    try:
        command = "exec " + shlex.join(command_of(options.words))  # no shell stands between, so it can be ended
        OneLineServer(command, host=host, port=port, title="tracetui").serve()
    except OSError as error:
        raise UsageError(f"{host}:{port}: {error.strerror or error}; --port takes another one") from error
    return DONE


def while_there(write: Callable[[bytes], Awaitable[None]]) -> Callable[[bytes], Awaitable[None]]:
    """Writes to a browser; what comes after it has left is dropped, or the screen would wait for someone to read it."""

    async def written(data: bytes) -> None:
        with suppress(OSError, RuntimeError):
            await write(data)

    return written


def kill(process: Any) -> None:
    """Ends the process of a screen that did not end when it was asked to."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()


class Understood:
    """The messages of a browser that are what they should be."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for message in self._socket:
            if isinstance(message.data, str) and understood(message.data):
                yield message


def understood(text: str) -> bool:
    """Whether a message is one that the server can take."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(message, list) or not message:
        return False
    kind, data = message[0], message[1] if len(message) > 1 else None
    if kind == "stdin":
        return isinstance(data, str)
    if kind == "resize":
        sizes = (data.get("width"), data.get("height")) if isinstance(data, dict) else (None,)
        return all(type(size) is int and 0 < size < _MOST for size in sizes)
    return kind in ("blur", "focus") or (kind == "ping" and len(message) > 1)


def is_allowed(token: str, given: str | None, cookies: str | None) -> bool:
    """Whether a request has the token, in its address or in the cookie that the first page set."""
    try:
        cookie = SimpleCookie(cookies or "").get(COOKIE)
    except CookieError:
        cookie = None
    held = [given, cookie.value if cookie else None]
    return any(text is not None and hmac.compare_digest(text.encode(), token.encode()) for text in held)


def guard(*, local: bool, token: str | None) -> Callable[..., Any]:
    """Refuses pages of other sites, since a browser lets any of them talk to a server on this machine.

    Args:
        local: whether only names of this machine are accepted; any other name was forged to point here.
        token: what a request must have; None if none is asked for.
    """
    from aiohttp import web

    @web.middleware  # type: ignore[untyped-decorator,unused-ignore]
    async def check(request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        origin = request.headers.get("Origin")
        if origin is not None and origin != f"{request.scheme}://{request.host}":
            raise web.HTTPForbidden(text="another site's page can't use this")
        if local and (request.url.host or "") not in LOCAL:
            raise web.HTTPForbidden(text="this is only for this machine")
        given = request.query.get("token")
        if token is not None and not is_allowed(token, given, request.headers.get("Cookie")):
            raise web.HTTPForbidden(text="open the address that tracetui printed: it has a token")
        answer = await handler(request)
        if token is not None and given is not None and not answer.prepared:
            answer.set_cookie(COOKIE, token, httponly=True, samesite="Strict")
        if request.path == "/" and isinstance(answer, web.Response) and answer.text:
            page = re.sub(r"<link\s[^>]*googleapis[^>]*>", "", answer.text)  # nothing is fetched from elsewhere
            answer.text = page.replace("</body>", FOCUS)
            answer.headers["Referrer-Policy"] = "no-referrer"
        return answer

    return cast("Callable[..., Any]", check)
