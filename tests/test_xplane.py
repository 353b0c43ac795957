"""XPlane of JAX and TensorFlow: planes, lines, events and what is known of them, against sums of the bytes."""

import gzip
import random
from pathlib import Path

import polars as pl
import pytest
from sample_runs import recorded

from tracetui.analysis.findings.core.framework import program_of
from tracetui.parsers import Trace, open_path
from tracetui.parsers.chrome.xplane import read_xplane
from tracetui.parsers.errors import TraceError
from tracetui.parsers.wire import fields as wire_fields
from tracetui.parsers.wire import text

JAX, TENSORFLOW = "formats/xplane/jax_mi300x_copies.xplane.pb", "formats/xplane/tf_bert_gpu4.xplane.pb.gz"


def work(trace: Trace) -> set[tuple[str, int, int, int]]:
    rows = trace.device.filter(pl.col("kind") != "annotation")
    return set(rows.group_by(pl.col("kind").cast(pl.String), "device").agg(pl.len(), pl.col("duration").sum()).rows())


def test_jax_on_eight_gpus() -> None:
    trace = open_path(recorded(JAX), cache=False).main
    assert (trace.info.kind, trace.info.tool, trace.info.base_time) == (
        "jax",
        "JAX profiler",
        1_757_516_928_109_201_518,
    )
    assert work(trace) == {("kernel", 7, 25, 3_586_493), ("memcpy", 0, 53, 889_028)}
    kernels = trace.device.filter(kind="kernel")
    assert kernels["name"].n_unique() == 5
    assert kernels["launch"].null_count() == 0
    first = kernels.row(0, named=True)
    assert (first["operation"], first["scope"]) == ("loop_transpose_fusion", "jit_forward_3d_conv/kernel")
    assert (first["grid"], first["registers"]) == ([1280, 1, 1], None)  # the file says 2,191,500,840
    gpu = trace.info.device(7)
    assert gpu is not None
    assert (gpu.architecture, gpu.sm_count, gpu.clock_hz) == ("gfx942", 304, 2_100_000_000)


def test_tensorflow_without_its_derived_lines() -> None:
    trace = open_path(recorded(TENSORFLOW), cache=False).main
    assert (trace.info.kind, trace.info.tool) == ("jax", "TensorFlow profiler")
    assert work(trace) == {("kernel", 4, 665, 14_825_385), ("memcpy", 4, 94, 198_429), ("memcpy", 1, 19, 33_792)}
    assert trace.source.events_parsed == 3_894
    assert trace.steps.rows() == [(0, "0", 1_921_299_828, 19_865_491)]
    kernels = trace.device.filter(kind="kernel")
    assert kernels["step"].unique().to_list() == [0]
    scopes = kernels["scope"].cast(pl.String)
    assert scopes[0].endswith("transformer/layer_5/dropout_1/dropout/random_uniform/RandomUniform:RandomUniform")
    assert kernels["registers"][0] == 38
    assert program_of(trace, kernels["name"]).framework != "jax"


def test_no_machine_is_named() -> None:
    content = recorded(JAX).read_bytes()
    hosts = [
        text(content, span)
        for at, span in wire_fields(content, 0, len(content))
        if at == 4 and not isinstance(span, int)
    ]
    assert hosts
    assert all(hosts)
    trace = open_path(recorded(JAX), cache=False).main
    said = repr(trace.info) + repr(trace.notes) + repr(trace.host["name"].cast(pl.String).to_list())
    assert not any(host in said for host in hosts)


# --- made files


def number(value: int) -> bytes:
    value %= 1 << 64
    found = b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])


def fields(*pairs: tuple[int, int | bytes]) -> bytes:
    """A message of these fields."""
    return b"".join(
        number(at << 3) + number(value) if isinstance(value, int) else number(at << 3 | 2) + number(len(value)) + value
        for at, value in pairs
    )


def made(*lines: bytes, names: tuple[str, ...] = ("gemm",), stats: tuple[str, ...] = ("step_num",)) -> bytes:
    """A file of one GPU with these lines."""
    events = [(4, fields((1, at), (2, fields((1, at), (2, name.encode()))))) for at, name in enumerate(names, 1)]
    known = [(5, fields((1, at), (2, fields((1, at), (2, name.encode()))))) for at, name in enumerate(stats, 1)]
    return fields((1, fields((1, 3), (2, b"/device:GPU:0"), *((3, line) for line in lines), *events, *known)))


def event(kind: int, offset: int, duration: int, *stats: tuple[int, int]) -> tuple[int, bytes]:
    return 4, fields((1, kind), (2, offset), (3, duration), *((4, fields((1, at), (4, value))) for at, value in stats))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made.xplane.pb"


def test_times_are_rounded_so_that_what_touches_does_not_overlap(path: Path) -> None:
    stream = fields((1, 7), (2, b"Stream #7"), (3, 100), event(1, 500, 1_600), event(1, 2_100, 1_400))
    path.write_bytes(made(stream))
    assert open_path(path, cache=False).main.device.select("start", "duration", "stream").rows() == [
        (100, 2, 7),
        (102, 1, 7),
    ]


def test_a_line_of_steps_counts_only_where_the_host_has_none(path: Path) -> None:
    stream = fields((1, 7), (2, b"Stream #7"), (3, 0), event(1, 20_000, 5_000))
    steps = fields((1, 8), (2, b"Steps"), (3, 0), event(2, 10_000, 50_000))
    path.write_bytes(made(stream, steps, names=("gemm", "4")))
    trace = open_path(path, cache=False).main
    assert trace.steps.rows() == [(4, "4", 10, 50)]
    assert trace.device.height == 1


@pytest.mark.parametrize("name", ["jax", "other.pb.gz"])
def test_it_is_known_by_its_beginning(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    content = recorded(JAX).read_bytes()
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert open_path(path, cache=False).main.info.kind == "jax"


def test_another_protobuf_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.pb").write_bytes(b"\n\x05hello\x12\x03abc")
    with pytest.raises(TraceError, match="a protobuf file, but not XPlane"):
        open_path(tmp_path / "model.pb", cache=False)


def test_of_a_cut_file_the_whole_planes_are_read(path: Path) -> None:
    content = recorded(JAX).read_bytes()
    path.write_bytes(content[: len(content) // 2])
    trace = open_path(path, cache=False).main
    assert work(trace) == {("kernel", 7, 25, 3_586_493), ("memcpy", 0, 53, 889_028)}
    assert "the rest of the file, which is cut" in [note.reason for note in trace.notes]


def test_damage_is_one_line_or_fewer_events(path: Path) -> None:
    content = gzip.decompress(recorded(TENSORFLOW).read_bytes())
    chance = random.Random(3)
    read = 0
    for _ in range(30):  # and `fuzz` damages such files in every run
        damaged = bytearray(content)
        for _ in range(chance.choice((1, 5, 50))):
            damaged[chance.randrange(20, len(damaged))] = chance.choice((0, 255, chance.randrange(256)))
        path.write_bytes(damaged)
        try:
            trace = read_xplane(path)
        except TraceError as problem:
            assert "\n" not in str(problem)  # noqa: PT017  both ends are allowed
        else:
            read += 1
            assert trace.device.height <= 3_894
    assert read > 10
