"""SQL over a recording: what it answers, and that nothing but the frames can be read, written or used up."""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from typing import ClassVar

import polars as pl
import pytest
from programs import PATIENCE_SECONDS, eventually, is_running, started
from sample_runs import VIM, recorded, run_of

from tracetui.analysis.query import ask as asking
from tracetui.analysis.query.frames import ABOUT, JOINS, SCHEMAS, frames, plain
from tracetui.analysis.query.sources import answer_of, frames_of
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import select
from tracetui.analysis.tables.registry import SECTIONS
from tracetui.app.cli.main import main
from tracetui.app.reports.answer import unit_of
from tracetui.parsers import Run, open_path

if not asking.is_there():
    pytest.skip("needs tracetui[query]", allow_module_level=True)
DOCS = Path(__file__).resolve().parents[1] / "docs"
PROCESS = asking._Process


class Shared(asking._Process):
    """One process for the queries of all tests: starting one takes longer than most queries."""

    kept: ClassVar[list[asking._Process]] = []

    def __init__(self, folder: Path) -> None:
        if not self.kept or self.kept[0].process.poll() is not None:
            self.kept[:] = [PROCESS(Path("/"))]
        self.process = self.kept[0].process

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def one_process() -> Iterator[None]:
    yield
    for process in Shared.kept:
        process.__exit__()


@pytest.fixture
def shared(monkeypatch, one_process) -> None:
    monkeypatch.setattr(asking, "_Process", Shared)


@cache
def sample() -> Run:
    """The recording of most tests, read once."""
    return open_path(VIM)


MADE: dict[str, dict[str, pl.DataFrame]] = {}


def made_once(run: Run) -> Callable[[Collection[str]], dict[str, pl.DataFrame]]:
    """Makes each frame of a recording once for all tests."""
    make, made = frames_of(run, run.main), MADE.setdefault(str(run.path), {})

    def some(names: Collection[str]) -> dict[str, pl.DataFrame]:
        made.update(make([name for name in names if name not in made]))
        return {name: made[name] for name in names}

    return some


def asked(sql: str, run: Run | None = None, **limits) -> asking.Answer:
    return asking.ask(sql, list(frames()), made_once(run or sample()), numbered=ABOUT, **limits)


def test_every_column_of_the_frames_is_told() -> None:
    for name, schema in SCHEMAS.items():
        told = frames()[name].columns
        assert [column.name for column in told] == ["row", *schema]
        assert all(column.about for column in told)
    for name in set(frames()) - set(SCHEMAS):
        assert [column.name for column in frames()[name].columns] == [field.json_key for field in plain(SECTIONS[name])]
        assert all(column.about and column.type for column in frames()[name].columns)


def test_the_frames_are_what_they_are_said_to_be(shared) -> None:
    for name in ("steps", "host", "device", "memory", "counters", "collectives", "kernels"):
        found = asked(f"select * from {name} limit 1")
        assert [(one.name, one.type) for one in found.columns] == [(c.name, c.type) for c in frames()[name].columns]


def test_rows_are_those_of_the_recording(shared) -> None:
    trace = sample().main
    found = asked("SELECT row, name, duration, grid FROM Device ORDER BY row")
    assert found.frames == ("device",)
    assert [row[0] for row in found.rows] == list(range(trace.device.height))
    assert [row[2] for row in found.rows] == trace.device["duration"].to_list()
    assert [row[3] for row in found.rows] == trace.device["grid"].to_list()
    # a row id is a position: each kernel's launch bears its correlation
    linked = asked("select count(*), count(*) filter (h.correlation = d.correlation) from device d "
                   "join host h on d.launch = h.row")  # fmt: skip
    assert linked.rows[0][0] == linked.rows[0][1] > 0


def test_the_kernels_below_modules_add_up_to_the_modules(shared) -> None:
    below = "select sum(device_us + coalesce(backward_device_us, 0)) from module_kernels"
    ((below_them, of_them),) = answer_of(
        sample(), sample().main, f"select ({below}), sum(device_self_us) from modules"
    ).rows
    assert below_them == pytest.approx(of_them)
    assert of_them > 0


@pytest.mark.parametrize("join", JOINS)
def test_what_is_said_to_join_has_rows(join: str, shared) -> None:
    (one, _), (other, _) = (side.split(".") for side in join.split(" = "))
    assert asked(f"select 1 from {one} join {other} on {join}").rows


def test_a_result_stops_at_its_limit(shared) -> None:
    found = asked("select row from host", limit=3)
    assert found.rows == ((0,), (1,), (2,))
    assert found.more
    assert not asked("select 1 as a limit 3", limit=1).more


def test_names_twice_are_told_apart(shared) -> None:
    assert [one.name for one in asked("select 1 as a, 2 as a").columns] == ["a", "a_2"]


@pytest.mark.parametrize(
    ("sql", "units"),
    [
        ("select sum(duration), avg(bytes) as b, count(*) as duration, duration/1e6 as ms from device group by 4",
         ["ns", "bytes", None, None]),
        ("select max(start + duration) - min(start), min(start), sum(d.duration) / count(*) from device d",
         ["ns", None, "ns"]),
        ("with s as (select step, sum(duration) t from device group by 1) select max(t) - min(t) from s union select 1",
         ["ns"]),
        ("select sum(total_us), max(percent), round(median(mean_us), 1) as middle from kernels", ["us", "%", "us"]),
        ("select *, 2 * duration as twice from steps", [None, None, None, None, "ns", None]),
    ],
)  # fmt: skip
def test_a_result_has_the_unit_of_what_it_is_made_of(sql, units, shared) -> None:
    found = asked(sql)
    assert [unit_of(column, found.frames) for column in found.columns] == units


def test_values_that_json_lacks_are_written_in_its_words(shared) -> None:
    found = asked(
        "select 1.5, 'nan'::double, date '2020-01-02', {'a': [1]}, 'ab'::blob, 2::hugeint, true, interval 1 day"
    )
    assert found.rows == ((1.5, None, "2020-01-02", {"a": [1]}, "6162", 2, True, "1 day, 0:00:00"),)


HOSTILE = {
    "select * from read_csv('/etc/passwd')": "not available",
    "select * from read_text('/etc/passwd')": "not available",
    "select * from read_blob('/proc/self/environ')": "not available",
    "select * from read_json('/etc/passwd')": "not available",
    "select * from read_parquet('{folder}/device.parquet')": "not available",
    "select * from glob('/*')": "not available",
    "select * from sniff_csv('/etc/passwd')": "not available",
    "select * from parquet_metadata('{folder}/device.parquet')": "not available",
    "select * from '/etc/passwd'": "no frame named /etc/passwd",
    "select * from '/etc/passwd.csv'": "no frame named",
    "select * from 'https://example.org/a.parquet'": "no frame named",
    "select * from 's3://bucket/a.parquet'": "no frame named",
    "from read_csv('http://169.254.169.254/latest/meta-data')": "not available",
    "with \"/etc/passwd\" as (select 1) select * from \"/etc/passwd\", 'x.csv'": "no frame named",
    "copy device to '{folder}/out.csv'": "only a SELECT",
    "copy (select 1) to '/tmp/tracetui-out.csv'": "only a SELECT",
    "copy device from program 'id'": "",
    "attach '/tmp/other.db'": "only a SELECT",
    "install httpfs": "only a SELECT",
    "load httpfs": "only a SELECT",
    "set enable_external_access = true": "only a SELECT",
    "reset lock_configuration": "only a SELECT",
    "pragma database_list": "only a SELECT",
    "call pragma_version()": "only a SELECT",
    "export database '{folder}'": "only a SELECT",
    "create table t as select 1": "only a SELECT",
    "create or replace view device as select 1": "only a SELECT",
    "create secret (type s3)": "only a SELECT",
    "insert into device select * from device": "only a SELECT",
    "drop view device": "only a SELECT",
    "use system": "only a SELECT",
    "prepare x as select 1": "only a SELECT",
    "explain analyze select 1": "only a SELECT",
    "vacuum": "only a SELECT",
    "describe device": "--schema",
    "show all tables": "--schema",
    "select getenv('HOME')": "not available",
    "select current_setting('allowed_directories')": "not available",
    "select * from duckdb_settings()": "not available",
    "select * from duckdb_secrets()": "not available",
    "select * from duckdb_views()": "not available",
    "select pg_read_file('/etc/passwd')": "not available",
    "select * from pg_catalog.pg_settings": "no frame named",
    "select * from information_schema.tables": "no frame named",
    "select * from sqlite_master": "no frame named",
    "select * from query('select * from duckdb_settings()')": "not available",
    "select * from query_table(['duckdb_settings'])": "not available",
    "select * from json_execute_serialized_sql('{}')": "not available",
    "select * from (select * from read_text('/etc/passwd')) t": "not available",
    "select (select content from read_text('/etc/passwd'))": "not available",
    "select 1 from device where exists (from glob('/etc/*'))": "not available",
    "select 1 union all select count(*) from read_csv('/etc/passwd')": "not available",
    "select list_transform([1], x -> getenv('HOME'))": "not available",
    "select write_log('x')": "not available",
    "select 1; select 2": "only one statement",
    "select 1; copy device to '{folder}/x.csv'": "only",
    "select 1 /* ; */; -- \n drop view device": "only",
    "select 1 -- \n; set threads = 64": "only",
    "": "no query",
    " -- nothing": "no query",
    "select '": "",
    "select secret_of_ours from RUNS": "no frame named",
    "select '\udcff'": "UTF-8",
    "select '\0' from device; drop view device": "",
}  # fmt: skip
"""Queries that are refused, and a part of what is said."""


@pytest.mark.parametrize("sql", HOSTILE)
def test_what_is_refused(sql, shared, tmp_path) -> None:
    with pytest.raises(asking.QueryError) as refused:
        asked(sql.replace("{folder}", str(tmp_path)))
    assert HOSTILE[sql] in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_the_sandbox_refuses_it_too(tmp_path) -> None:
    """Without the rule on the syntax tree, DuckDB's own locks hold, and where it has none, those of the system."""
    script = (
        "import json, sys\n"
        "from tracetui.analysis.query import worker\n"
        "worker.named_frames = lambda tree, frames: []\n"
        "worker.main()"
    )
    queries = [
        "select * from read_text('/etc/passwd')",
        "select * from '/etc/passwd.csv'",
        "select * from glob('/etc/*')",
        "select * from read_blob('/proc/self/environ')",
        f"copy (select range from range(9999)) to '{tmp_path}/inside.csv'",
        "copy (select 1) to '/tmp/tracetui-never.csv'",
        "attach '/tmp/tracetui-never.db'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "set memory_limit = '100GB'",
        "set allowed_directories = ['/']",
        "select * from duckdb_secrets()",
    ]
    request = {
        "folder": str(tmp_path), "frames": [], "numbered": [], "limit": 9, "seconds": 5, "memory_bytes": 1 << 28,
        "threads": 1,
    }  # fmt: skip
    said = "".join(json.dumps({**request, "sql": sql}) + "\n{}\n" for sql in queries)
    done = subprocess.run([sys.executable, "-c", script], input=said, capture_output=True, text=True, timeout=120)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert ["error" in answer for answer in answers if "frames" not in answer] == [True] * len(queries)
    assert not [file for file in tmp_path.iterdir() if file.stat().st_size]
    assert not list(Path("/tmp").glob("tracetui-never*"))


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select count(*) from host a, host b, host c, host d", "stopped after 0.1 s"),
        ("with recursive r(n) as (select 1 union all select n + 1 from r) select max(n) from r", "stopped after"),
        ("select * from host a, host b, host c order by a.name || b.name", "stopped after"),
        ("select list(range) from range(100000000000)", "of memory"),
        ("select string_agg(a.name, '') from host a, host b", "of memory"),
    ],
)  # fmt: skip
def test_what_would_use_too_much_is_stopped(sql, said, shared) -> None:
    begins = time.monotonic()
    limits = (0.1, 1 << 30) if "stopped" in said else (PATIENCE_SECONDS, 64 << 20)
    with pytest.raises(asking.QueryError, match=said):
        asked(sql, seconds=limits[0], memory=limits[1])
    assert time.monotonic() - begins < PATIENCE_SECONDS


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select duration_ns from device", r"; device has row, kind, name, start, duration, "),
        ("select d.dur from device d join steps s on true", r"; device has row(?!.*; steps has)"),
        ("select steps.dur from device join steps on true", r"; steps has row(?!.*; device has)"),
        ("select dur_ns from kernels", r'"dur_ns" not found.*; kernels has name, .*total_us'),
    ],
)  # fmt: skip
def test_a_wrong_column_is_told_with_those_that_there_are(sql, said) -> None:
    with pytest.raises(asking.QueryError, match=said) as refused:
        answer_of(sample(), sample().main, sql)
    assert "Candidate" not in str(refused.value)


def test_a_process_that_does_not_look_up_is_ended(monkeypatch) -> None:
    """Within one call of a function DuckDB obeys no interrupt."""
    monkeypatch.setattr(asking, "GRACE_S", 0.3)
    with pytest.raises(asking.QueryError, match=r"stopped after 0.2 s"):
        asked("select levenshtein(repeat('a', 600000), repeat('b', 600000))", seconds=0.2)
    with pytest.raises(asking.QueryError):  # DuckDB 2.0 reads it for long, 1.5 refuses it
        asked("select " + "(" * 5000, seconds=0.1)


def test_the_process_ends_with_the_one_that_asked(tmp_path) -> None:
    """A closed terminal ends the screen by a signal, and a query would go on for as long as it may."""
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_query import asked, asking
started = asking._Process.__init__
def told(self, folder):
    started(self, folder)
    print(self.process.pid, flush=True)
asking._Process.__init__ = told
asked("select count(*) from host a, host b, host c where a.name || b.name > c.name", seconds=600, memory=1 << 32)
"""
    folder = {**os.environ, "TMPDIR": str(tmp_path)}
    with started([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=folder) as one:
        worker = int(one.stdout.readline())
        eventually(lambda: one.poll() is not None or list(tmp_path.glob("*/host.parquet")))
        assert one.poll() is None
    eventually(lambda: not list(tmp_path.iterdir()), lambda: list(tmp_path.iterdir()))
    eventually(lambda: not is_running(worker))


def test_the_process_knows_nothing_of_the_user(monkeypatch, tmp_path) -> None:
    """It runs in its own folder without the environment, and imports nothing from the user's."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "duckdb.py").write_text("raise SystemExit")
    monkeypatch.setenv("TRACETUI_TOKEN", "secret")
    started = {}
    real = asking.subprocess.Popen

    def popen(command, **options):
        started.update(options)
        return real(command, **options)

    monkeypatch.setattr(asking.subprocess, "Popen", popen)
    assert asked("select 1 as a").rows == ((1,),)
    assert "TRACETUI_TOKEN" not in started["env"]
    assert started["cwd"] != tmp_path
    assert not Path(started["cwd"]).exists()


def test_a_scope_restricts_the_frames_and_keeps_the_numbers_of_rows(shared) -> None:
    run = sample()
    scope = Scope(steps=(2, 2))
    chosen = select(run.main, scope)

    def within(sql: str) -> asking.Answer:
        return answer_of(run, run.main, sql, scope=scope)

    assert within("select index from steps").rows == ((2,),)
    assert [row[0] for row in within("select row from device order by row").rows] == chosen.device["row"].to_list()
    same = "count(*) filter (h.correlation = d.correlation)"
    joined = f"select count(*), {same} from device d join host h on h.row = d.launch"
    assert set(within(joined).rows[0]) == {chosen.device["launch"].drop_nulls().len()}
    calls = within("select sum(calls) from kernels").rows[0][0]
    assert calls == chosen.device.filter(pl.col("kind") == "kernel").height
    # its type and those of its other columns are as without a scope
    for name in ("device", "steps", "host", "memory", "counters", "collectives"):
        found = within(f"select * from {name} limit 0")
        assert [(one.name, one.type) for one in found.columns] == [(c.name, c.type) for c in frames()[name].columns]


def test_ranks_and_tools_are_chosen(capsys, shared) -> None:
    path = str(recorded("chrome/ddp_vit_small_2ranks"))
    assert main(["query", path, "--rank", "1", "--format", "json", "select count(*) as n from device"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["source"]["rank"] == 1
    run = run_of("chrome/ddp_vit_small_2ranks")
    assert found["rows"] == [{"n": next(t for t in run.traces if t.info.rank == 1).device.height}]
    assert [row[0] for row in asked("select rank, step_us from ranks order by rank", run).rows] == [0, 1]


def test_a_wrong_question_is_one_line(capsys) -> None:
    wrong = (
        (["query"], "no query given"),
        (["query", str(VIM)], "no query given"),
        (["query", "select 1"], "no path given"),
        (["query", "--sample", "vim", "select 1"], "there are vim_tiny"),
        (["query", "tests", "--schema", "nothing"], "no frame named 'nothing'"),
    )
    for words, said in wrong:
        assert main(words) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1


def test_without_duckdb_it_says_what_to_install(capsys, monkeypatch) -> None:
    monkeypatch.setattr("tracetui.analysis.query.ask.is_there", lambda: False)
    assert main(["query", "--sample", "select 1"]) == 2
    assert "pip install 'tracetui[query]'" in capsys.readouterr().err


def test_names_come_to_life_in_no_format(shared) -> None:
    from tracetui.app.reports.answer import answer_csv, answer_json, answer_markdown, answer_text
    from tracetui.app.reports.json_report import to_json
    from tracetui.app.reports.layout import Layout

    sql = "select '=HYPERLINK(1)' as a, '\x1b[31mred' as b, '<b>|`x`' as \"=c\", -5 as d, null as e"
    found = asked(sql)
    assert answer_csv(found) == "a,b,'=c,d,e\n'=HYPERLINK(1),\\x1b[31mred,<b>|`x`,-5,\n"
    text, page = answer_text(found, Layout()), answer_markdown(found, Layout())
    assert "\x1b" not in text + page + to_json(answer_json(found, {}))
    assert "``` <b>\\|`x` ```" in page or "`` <b>\\|`x` ``" in page
    assert answer_text(asked("select 1500 as a_ns, 1.5 as b_us, 2048 as c_bytes, 12.345 as d_percent"), Layout()) == (
        "      a_ns      b_us    c_bytes  d_percent\n  1.500 µs  1.500 µs  2.000 KiB       12.3\n"
    )


def examples() -> list[tuple[str, str]]:
    """The commands of docs/query.md with what each prints."""
    page = (DOCS / "query.md").read_text("utf-8")
    return re.findall(r"```sh\ntracetui (query --sample .*?)\n```\n\n```text\n(.*?)```", page, re.DOTALL)


def in_polars() -> list[str]:
    """The same questions on docs/notebooks.md."""
    page = (DOCS / "notebooks.md").read_text("utf-8")
    return re.findall(r"```python\n(.*?)```", page[page.index("## The queries of query.md") :], re.DOTALL)[:11]


def test_the_examples_of_the_pages(shared) -> None:
    """Each command prints what the page says, and Polars finds the same rows."""
    from tracetui.analysis.kernels import kernels
    from tracetui.analysis.matching.light_times import with_light_times
    from tracetui.app.reports.answer import answer_text
    from tracetui.app.reports.layout import Layout

    run = sample()
    trace = run.main
    known = {"pl": pl, "kernels": kernels, "run": run, "trace": trace, "sel": with_light_times(select(trace))}
    begin, *snippets = in_polars()
    exec(begin, known)
    for (command, printed), code in zip(examples(), snippets, strict=True):
        _, _, name, sql = shlex.split(command)
        assert name == "vim_tiny"
        answer = asked(sql, run, limit=100)
        assert answer_text(answer, Layout()) == printed
        *before, last = ast.parse(code).body
        exec(compile(ast.Module(before, []), "notebooks.md", "exec"), known)
        rows = eval(compile(ast.Expression(last.value), "notebooks.md", "eval"), known).rows()
        assert [tuple(row) for row in rows] == [pytest.approx(row) if None not in row else row for row in answer.rows]


def test_there_are_ten_examples() -> None:
    assert len(examples()) == len(in_polars()) - 1 == 10
