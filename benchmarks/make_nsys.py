"""Writes a large export of Nsight Systems: kernels, API calls and nested NVTX ranges on several threads and streams.

python benchmarks/make_nsys.py big.sqlite                                  # 5 million rows of each, about 0.9 GB
python benchmarks/make_nsys.py small.sqlite --kernels 100000 --calls 100000 --ranges 100000
"""

from __future__ import annotations

import argparse
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

PROCESS, VM = 4242, 1 << 48
STREAMS = (7, 13, 17, 21)
CHUNK = 200_000
TABLES = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, "
        "greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
        "demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, "
        "cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, "
        "gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, "
        "staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, "
        "localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL, "
        "sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, "
        "correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER"
    ),
    "NVTX_EVENTS": (
        "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, "
        "color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, "
        "uint64Value INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, "
        "floatValue REAL, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT"
    ),
    "TARGET_INFO_GPU": "id INTEGER, name TEXT, smCount INTEGER, totalMemory INTEGER",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER",
    "META_DATA_EXPORT": "name TEXT, value TEXT",
}
TYPES = ("float", "c10::Half", "c10::BFloat16", "double", "int", "long", "bool")
OPERATIONS = ("add", "mul", "sigmoid", "silu", "gelu", "exp", "copy", "fill", "where", "softmax", "layer_norm", "rsqrt")
CALLS = ("cudaLaunchKernel_v7000", "cuLaunchKernelEx", "cudaMemcpyAsync_v3020", "cudaStreamIsCapturing_v10000")
LAYERS = ("forward_pass", "attention", "mlp", "norm", "embedding", "projection", "backward", "optimizer_step")
DEPTH = 5
"""How deep ranges nest: a step, a phase, a layer, and two levels of operations."""


def kernel_names() -> list[str]:
    return [
        f"void at::native::vectorized_elementwise_kernel<(int){width}, at::native::{operation}_kernel_cuda(at::Tensor"
        f"IteratorBase &)::[lambda({kind})], std::array<char *, (unsigned long)3>>(int, T2, T3)"
        for operation in OPERATIONS
        for kind in TYPES
        for width in (2, 4, 8)
    ] + [
        f"sm90_xmma_gemm_{kind}_tn_n_tilesize{m}x{n}x32_warpgroupsize1x1x1_execute_segment_k_off_kernel"
        for kind in ("bf16bf16_f32", "f16f16_f32", "f32f32_tf32")
        for m in (64, 128)
        for n in (64, 128, 256)
    ]


def chunks(size: int) -> Iterator[slice]:
    return (slice(begin, min(begin + CHUNK, size)) for begin in range(0, size, CHUNK))


def threads(count: int, size: int) -> Ints:
    """The thread of each of `size` rows in a row of bursts, as programs take turns."""
    return VM | PROCESS << 24 | (PROCESS + np.arange(size) // 32 % count)


def write_kernels(
    connection: sqlite3.Connection, size: int, calls: int, names: int, random: np.random.Generator
) -> None:
    start = np.sort(random.integers(0, size * 6_000, size)) + 20_000
    duration = random.integers(900, 40_000, size)
    columns = (
        start, start + duration, 0, 1, None, random.choice(STREAMS, size), 1 + np.arange(size) % max(calls, 1),
        VM | PROCESS << 24, (name := random.integers(0, names, size)), name, name, 1, 4,
        random.integers(16, 255, size), random.integers(1, 4096, size), random.integers(1, 16, size), 1,
        random.choice((32, 64, 128, 256, 512), size), 1, 1, 0, random.choice((0, 0, 4096, 65536), size), 0, 250871808,
        np.arange(size), 32768, None, 0,
    )  # fmt: skip
    insert(connection, "CUPTI_ACTIVITY_KIND_KERNEL", size, columns)


def write_calls(
    connection: sqlite3.Connection, size: int, first_name: int, workers: int, random: np.random.Generator
) -> None:
    start = np.arange(size) * 6_000 + random.integers(0, 500, size)
    columns = (
        start, start + random.integers(1_000, 5_000, size), random.integers(0, 2, size), threads(workers, size),
        np.arange(size) + 1, first_name + random.integers(0, len(CALLS), size), 0, None,
    )  # fmt: skip
    insert(connection, "CUPTI_ACTIVITY_KIND_RUNTIME", size, columns)


def write_ranges(connection: sqlite3.Connection, size: int, end: int, workers: int, registered: int) -> None:
    """Complete trees of `DEPTH` levels, each thread's one after the other, in the order in which ranges begin."""
    fanout = (1, 2, 4, 4, 4)
    starts, ends, texts = [0.0], [1.0], ["train_step"]

    def grow(level: int, begin: float, stop: float) -> None:
        width = (stop - begin) / fanout[level]
        for child in range(fanout[level]):
            low, high = begin + (child + 0.02) * width, begin + (child + 0.98) * width
            starts.append(low)
            ends.append(high)
            texts.append(LAYERS[(child + level) % len(LAYERS)])
            if level + 1 < DEPTH:
                grow(level + 1, low, high)

    grow(1, 0.0, 1.0)
    tree = len(starts)
    trees = -(-size // tree)
    length = end * workers // max(trees, 1)
    # most ranges carry their text, those of NCCL and other libraries a registered string
    labels = [(None, registered) if at % 16 == 15 else (text, None) for at, text in enumerate(texts)]
    begin = np.array(starts) * length
    stop = np.array(ends) * length
    rows, written = [], 0
    for number in range(trees):
        base = number // workers * length
        thread = VM | PROCESS << 24 | (PROCESS + number % workers)
        low, high = (begin + base).astype(np.int64).tolist(), (stop + base).astype(np.int64).tolist()
        rows.extend(
            (a, b, 59, None, None, None, text, thread, None, string, 0, *(None,) * 9)
            for a, b, (text, string) in zip(low, high, labels, strict=True)
        )
        if len(rows) >= CHUNK or number + 1 == trees:
            connection.executemany(f"INSERT INTO NVTX_EVENTS VALUES ({', '.join('?' * 20)})", rows[: size - written])
            written += len(rows)
            rows.clear()


def insert(connection: sqlite3.Connection, table: str, size: int, columns: tuple[object, ...]) -> None:
    marks = ", ".join("?" * len(columns))
    for part in chunks(size):
        count = part.stop - part.start
        lists = [column[part].tolist() if isinstance(column, np.ndarray) else [column] * count for column in columns]
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", zip(*lists, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--kernels", type=int, default=5_000_000)
    parser.add_argument("--calls", type=int, default=5_000_000)
    parser.add_argument("--ranges", type=int, default=5_000_000)
    parser.add_argument("--threads", type=int, default=4)
    options = parser.parse_args()
    options.output.unlink(missing_ok=True)
    random = np.random.default_rng(3)
    connection = sqlite3.connect(options.output)
    connection.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;")
    for table, columns in TABLES.items():
        connection.execute(f"CREATE TABLE {table} ({columns})")
    names = kernel_names()
    strings = [*names, *CALLS, "ncclAllReduce"]
    connection.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(strings))
    connection.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H200', 132, 150109880320)")
    connection.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2025.3.2.0')")
    write_kernels(connection, options.kernels, options.calls, len(names), random)
    write_calls(connection, options.calls, len(names), options.threads, random)
    write_ranges(connection, options.ranges, options.calls * 6_000, options.threads, len(strings) - 1)
    connection.commit()
    connection.close()
    rows = options.kernels + options.calls + options.ranges
    print(f"{options.output}: {options.output.stat().st_size / 1e6:.1f} MB, {rows} rows")


if __name__ == "__main__":
    main()
