"""`tracetui mcp`: its tools, and one conversation over standard input and output with the SDK's own client."""

import importlib.util
import json
import signal
import subprocess
import sys
from pathlib import Path
from shutil import copy

import pytest
from programs import PATIENCE_SECONDS, started
from sample_runs import DATA

from tracetui.app.cli.commands.mcp import READING, Tools, _answering
from tracetui.app.text.exit_codes import UsageError
from tracetui.parsers import TraceError

needs_sdk = pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="needs tracetui[mcp]")
RUN = DATA / "two_passes"


@pytest.fixture(scope="module")
def tools() -> Tools:
    return Tools([DATA / "two_passes", DATA / "mlp_profiled"], cache=True)


def test_only_what_was_given_is_read(tools, tmp_path) -> None:
    allowed = json.loads(tools.open())["paths"]
    assert allowed == [str(RUN), str(DATA / "mlp_profiled")]
    (tmp_path / "link").symlink_to(DATA / "gpt_clean")
    (tmp_path / "trace.json").write_text("{}")
    inside = Tools([tmp_path], cache=False)
    for path in (str(DATA / "gpt_clean"), "/etc/passwd", "../gpt_clean", str(RUN / ".." / "gpt_clean"), str(DATA)):
        with pytest.raises(UsageError, match="all that may be read"):
            tools.report(path)
    for path in ("link", str(tmp_path / "link"), "/", ".."):
        with pytest.raises(UsageError, match="all that may be read"):
            inside.report(path)
    (tmp_path / "loop").symlink_to("loop")
    for path in ("loop", "a\0b", "\ud800"):
        with pytest.raises(UsageError, match="no such file or folder"):
            inside.report(path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "trace.json").symlink_to(RUN / "trace.pt.trace.json.gz")
    for path in ("folder", ""):  # what links lead to elsewhere is not looked at
        with pytest.raises(TraceError, match=r"no trace in this folder|not a trace"):
            inside.report(path)
    copy(RUN / "light.pt.trace.json.gz", tmp_path)
    (recording,) = json.loads(inside.open(str(tmp_path)))["recordings"]
    assert recording["path"].endswith("light.pt.trace.json.gz")
    with pytest.raises(UsageError, match="no path given"):
        tools.report("")
    with pytest.raises(UsageError, match="no such file"):
        inside.report("nothing.json")


def test_every_answer_fits(tools) -> None:
    path = str(RUN)
    key = json.loads(tools.findings(path))["findings"][0]["key"]
    asked = {
        "open": (path,), "report": (path,), "findings": (path,), "evidence": (path, key), "kernels": (path,),
        "diff": (path, path), "query": (),
    }  # fmt: skip
    assert set(asked) == set(READING)
    for name, given in asked.items():
        whole = getattr(tools, name)(*given, max_tokens=100_000)
        fits = max(len(whole.encode()) // 6, 600)  # half of it, in tokens
        short = getattr(tools, name)(*given, max_tokens=fits)
        assert len(short.encode()) <= 3 * fits, name
        assert len(whole) == len(short) or "left_out" in json.loads(short) or "…" in short
        with pytest.raises(UsageError, match="needs about"):
            getattr(tools, name)(*given, max_tokens=1)


def test_what_the_tools_say(tools) -> None:
    path = str(RUN)
    assert json.loads(tools.open(path))["recordings"][0]["kind"] == "chrome"
    short = json.loads(tools.report(path, max_tokens=1500))
    assert len(tools.report(path, max_tokens=1500).encode()) <= 4500
    assert short["left_out"]
    findings = json.loads(tools.findings(path))["findings"]
    proof = json.loads(tools.evidence(path, findings[0]["key"]))
    assert proof["findings"][0]["formula"]
    assert proof["rule"]["id"] == findings[0]["key"].split(":")[0]
    assert len(json.loads(tools.kernels(path, limit=2))["kernels"]) == 2
    changed = json.loads(tools.diff(path, str(DATA / "mlp_profiled")))
    assert changed["schema"] == "tracetui.diff/1"
    assert {one["name"] for one in json.loads(tools.query())["frames"]} >= {"device", "kernels"}
    with pytest.raises(UsageError, match="no finding S99"):
        tools.evidence(path, "S99")
    with pytest.raises(UsageError, match="no section named 'x'"):
        tools.report(path, ["x"])


def test_an_answer_beyond_all_measure_is_refused(tools) -> None:
    class RefusedError(Exception):
        pass

    answer = _answering(tools.query, RefusedError)
    assert len(answer(str(RUN), "select repeat('x', 2000000)", max_tokens=2_000_000)) > 2_000_000
    with pytest.raises(RefusedError, match="characters; ask for less"):
        answer(str(RUN), "select repeat('x', 5000000)", max_tokens=2_000_000)


def test_recording_stays_below_the_given_paths(tmp_path) -> None:
    tools = Tools([tmp_path], cache=False)
    with pytest.raises(UsageError, match="all that may be read"):
        tools.record(["true"], "/tmp/elsewhere")
    (tmp_path / "there").mkdir()
    with pytest.raises(UsageError, match="already"):
        tools.record(["true"], "there")
    with pytest.raises(UsageError, match="no command"):
        tools.record([], "new")


@needs_sdk
def test_ctrl_c_ends_it_while_it_listens() -> None:
    words = [sys.executable, "-c", "from tracetui.app.cli.main import script; script()", "mcp", str(RUN)]
    with started(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        assert b'"id":1' in process.stdout.readline().replace(b" ", b"")
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_SECONDS)


@needs_sdk
async def test_a_conversation() -> None:
    from mcp import Client, StdioServerParameters

    command = ["-c", "from tracetui.app.cli.main import script; script()", "mcp", str(RUN)]
    async with Client(StdioServerParameters(command=sys.executable, args=command)) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == list(READING)
        assert all(tool.annotations.read_only_hint and tool.description for tool in tools)
        said = await client.call_tool("findings", {"path": str(RUN)})
        assert not said.is_error
        assert json.loads(said.content[0].text)["findings"][0]["key"]
        if importlib.util.find_spec("duckdb"):
            said = await client.call_tool("query", {"path": str(RUN), "sql": "select count(*) as n from device"})
            assert json.loads(said.content[0].text)["rows"][0]["n"] > 0
        said = await client.call_tool("report", {"path": str(RUN)})  # what limits it
        assert json.loads(said.content[0].text)["run"]["traces"][0]["overview"]["waits_for"]["sentence"]
        said = await client.call_tool("findings", {"path": str(RUN)})  # what to change
        first = json.loads(said.content[0].text)["findings"][0]
        assert first["advice"]
        assert "aten::_foreach_copy_" in first["at"]
        said = await client.call_tool("diff", {"a": str(RUN), "b": str(RUN)})  # did it get better
        assert json.loads(said.content[0].text)["step"]["delta_us"] == 0
        for tool, given, line in (
            ("report", {"path": str(RUN), "limt": 2}, "report takes no 'limt'; it takes path, sections, max_tokens"),
            ("kernels", {"path": str(RUN), "limit": "all"}, "kernels: limit: input should be a valid integer"),
            ("kernels", {"path": str(RUN), "limit": -2}, "limit: -2 is below 0"),
            ("evidence", {"path": str(RUN)}, "evidence: finding: field required"),
        ):
            wrong = await client.call_tool(tool, given)
            assert wrong.is_error
            assert line in wrong.content[0].text
            assert "\n" not in wrong.content[0].text
        for tool, given in (
            ("report", {"path": "/etc/passwd"}),
            ("query", {"path": str(RUN), "sql": "select * from read_text('/etc/passwd')"}),
            ("record", {"command": ["true"], "folder": str(RUN / "new")}),
        ):
            refused = await client.call_tool(tool, given)
            assert refused.is_error
            assert "root:" not in refused.content[0].text
    assert not Path(RUN / "new").exists()
