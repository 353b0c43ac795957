"""The screen in a browser: what is started for it, who may look, and what is said where its package is missing."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from programs import PATIENCE_SECONDS, eventually, started
from sample_runs import FP32

from tracetui.app.cli.commands import serve
from tracetui.app.cli.main import main
from tracetui.parsers import TraceError
from tracetui.parsers.written import write_text

needs_server = pytest.mark.skipif(find_spec("textual_serve") is None, reason="tracetui[web] is not installed")


def test_what_a_browser_is_shown_is_what_was_asked_for() -> None:
    words = ["--debug", "serve", "a b.json", "--port", "9000", "--tab", "kernels", "--host=0.0.0.0", "--theme", "light"]
    command = serve.command_of(words)
    assert command[:3] == [sys.executable, "-m", "tracetui.app"]
    assert command[3:] == ["--debug", "open", "a b.json", "--tab", "kernels", "--theme", "light"]


def test_without_the_package_a_line_says_how_to_get_it(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "textual_serve", None)
    monkeypatch.setitem(sys.modules, "textual_serve.server", None)
    assert main(["serve", str(FP32)]) == 2
    assert capsys.readouterr().err == "tracetui: the browser view needs textual-serve: pip install 'tracetui[web]'\n"


@pytest.mark.parametrize(("arguments", "said"), [
    (["serve", "nowhere.json"], "nowhere.json: no such file or folder"),
    (["serve", "--port", "70000"], "is no port"),
    (["serve", "--port", "x"], "is no port"),
])  # fmt: skip
def test_wrong_usage_is_one_clear_line(arguments, said, capsys) -> None:
    assert main(arguments) in (1, 2)
    assert said in capsys.readouterr().err


@pytest.fixture
def served():
    """A server of a recording on a free port; the address, the token and the number of its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tracetui.app", "serve", str(FP32), "--port", str(port), "--tab", "kernels"]
    environment = {**os.environ, "SSH_CONNECTION": "1 2 3 4"}
    with started(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        said = re.search(rf"http://localhost:{port}/\?(token=\S+) shows it", process.stdout.readline())
        assert said is not None

        def listens() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        eventually(listens)
        yield f"http://127.0.0.1:{port}", said[1], process.pid
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize(("message", "is_one"), [
    ('["stdin", "a"]', True), ('["resize", {"width": 80, "height": 24}]', True),
    ('["focus"]', True), ('["ping", 3]', True),
    ('["stdin", 5]', False), ('["stdin"]', False), ('["resize", {"width": 0, "height": 1}]', False),
    ("{", False), ('["resize", {"width": true, "height": 1}]', False),
    ("[]", False), ("7", False), ("[" * 99_999, False), ("", False),
    ('["resize", 5]', False), ('["other", 5]', False),
])  # fmt: skip
def test_only_messages_of_a_browser_are_taken(message: str, is_one: bool) -> None:
    assert serve.understood(message) == is_one


def test_a_token_is_in_the_address_or_in_the_cookie() -> None:
    assert serve.is_allowed("abc", "abc", None)
    assert serve.is_allowed("abc", None, f"x=1; {serve.COOKIE}=abc")
    wrong = ((None, None), ("", None), ("ab", None), ("abcd", ""), (None, f"{serve.COOKIE}=x"), (None, "=;="))
    for given, cookie in wrong:
        assert not serve.is_allowed("abc", given, cookie)
    assert not serve.is_allowed("abc", "\u00e4", None)


def test_a_screen_that_only_shows_writes_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TRACETUI_READ_ONLY", "1")
    with pytest.raises(TraceError, match="this screen only shows"):
        write_text(tmp_path / "x.csv", "a")
    assert list(tmp_path.iterdir()) == []
    words = ["serve", "a.json", "--no-token", "--allow-write", "--tab", "kernels"]
    assert serve.command_of(words)[3:] == ["open", "a.json", "--tab", "kernels"]


def test_so_many_browsers_look_at_a_time_and_no_more() -> None:
    def take() -> bool:
        return serve.PLACES.acquire(blocking=False)

    assert [take() for _ in range(serve.MOST_SESSIONS + 2)] == [True] * serve.MOST_SESSIONS + [False] * 2
    serve.PLACES.release()
    assert [take(), take()] == [True, False]
    serve.PLACES.release(serve.MOST_SESSIONS)


@needs_server
def test_a_port_that_is_taken_is_one_clear_line(capsys) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "tracetui.app", "serve", str(FP32), "--host", "127.0.0.1", "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "in use; --port takes another one" in done.stderr


@needs_server
async def test_a_browser_sees_the_screen_and_its_keys_reach_it(served) -> None:
    import aiohttp

    served, token, _ = served
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        for path in ("/", "/ws", "/static/js/textual.js", "/?token=wrong"):
            async with session.get(f"{served}{path}") as answer:
                assert answer.status == 403, path
        async with session.get(f"{served}/?{token}") as answer:
            page = await answer.text()
        assert "keys.focus()" in page
        assert "ws://127.0.0.1" in page
        assert "googleapis" not in page, "nothing is fetched from elsewhere"
        async with session.ws_connect(f"{served}/ws?width=80&height=24", headers={"Origin": served}) as socket:
            await socket.send_str(json.dumps(["resize", {"width": 80, "height": 24}]))
            await until(socket, "selective_scan_fwd_kernel")
            for bad in ("{", "[]", "7", '["stdin", 5]', '["resize", {}]', '["ping"]', "[" * 9999):
                await socket.send_str(bad)
            await socket.send_bytes(b"\xff")
            await socket.send_str(json.dumps(["stdin", "8"]))
            await until(socket, "[8 Findings]")


def screens(server: int) -> list[Path]:
    """The processes below the server, and those below them, that still run."""
    below = Path(f"/proc/{server}/task/{server}/children").read_text("ascii").split()
    running = [Path("/proc", number) for number in below]
    found = [child for child in running if child.exists() and " Z " not in (child / "stat").read_text("ascii")]
    return [*found, *(one for child in found for one in screens(int(child.name)))]


@needs_server
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system does not list processes there")
async def test_a_screen_ends_soon_after_its_browser_left_amid_its_output(served) -> None:
    import aiohttp

    served, token, server = served
    async with aiohttp.ClientSession() as session:
        address, headers = f"{served}/ws?{token}", {"Origin": served}
        for size in ("width=2000&height=24", "width=80&height=0", "width=80&height=24"):  # the last is no WebSocket
            async with session.get(f"{address}&{size}", headers=headers) as answer:
                assert answer.status == 400
        socket = await session.ws_connect(f"{address}&width=80&height=24", headers=headers, max_msg_size=0)
        await until(socket, "selective_scan_fwd_kernel")
        assert screens(server)
        for size in (1999, 1998) * 8:
            await socket.send_str(json.dumps(["resize", {"width": size, "height": size}]))
        await socket.receive()
        socket._response.connection.transport.abort()
        deadline = time.monotonic() + 12
        while screens(server) and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        assert screens(server) == []


@needs_server
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system does not list processes there")
def test_a_browser_that_takes_nothing_more_gives_its_place_back(served) -> None:
    """As one that vanished does, once its answer to a ping is missing: its connection is full and ends by no word."""
    address, token, server = served
    place = "localhost", int(address.rpartition(":")[2])

    def joined() -> tuple[socket.socket, bytes]:
        browser = socket.socket()
        browser.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        browser.settimeout(20)
        browser.connect(place)
        origin = f"http://{place[0]}:{place[1]}"
        browser.sendall(
            f"GET /ws?{token}&width=80&height=24 HTTP/1.1\r\nHost: {origin[7:]}\r\nOrigin: {origin}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        return browser, browser.recv(12)

    silent, said = joined()
    assert said == b"HTTP/1.1 101"
    shown = b""
    while b"selective_scan_fwd" not in shown:
        shown += silent.recv(4096)
    for size in (1999, 1998) * 8:
        text = json.dumps(["resize", {"width": size, "height": size}]).encode()
        silent.sendall(bytes((0x81, 0x80 | len(text), 0, 0, 0, 0)) + text)
    time.sleep(3)  # until the connection is full
    silent.sendall(bytes((0x88, 0x80, 0, 0, 0, 0)))
    deadline = time.monotonic() + 15
    while screens(server) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(serve.LEAVING_SECONDS)
    others = [joined() for _ in range(serve.MOST_SESSIONS)]
    assert [answer for _, answer in others] == [b"HTTP/1.1 101"] * serve.MOST_SESSIONS
    for browser in (silent, *(each for each, _ in others)):
        browser.close()


async def until(socket, words: str) -> None:
    seen, deadline = "", time.monotonic() + PATIENCE_SECONDS
    while words not in seen:
        message = await socket.receive(timeout=max(deadline - time.monotonic(), 0.1))
        assert message.data is not None, seen[-2000:]
        data = message.data if isinstance(message.data, str) else message.data.decode("utf-8", "replace")
        seen += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", data)


@needs_server
@pytest.mark.parametrize(("headers", "path"), [
    ({"Origin": "http://elsewhere.example"}, "/ws"), ({"Host": "elsewhere.example"}, "/"),
])  # fmt: skip
async def test_pages_of_other_sites_are_refused(served, headers, path) -> None:
    import aiohttp

    async with aiohttp.ClientSession() as session, session.get(served[0] + path, headers=headers) as answer:
        assert answer.status == 403
