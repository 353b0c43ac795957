"""Writes a large Chrome trace by repeating real recordings with shifted times and ids.

python benchmarks/make_trace.py 300 big.json        # about 300 MB, 1.1 million events
python benchmarks/make_trace.py 300 big.json.gz
python benchmarks/make_trace.py 575 training.json --of training_with_stacks.pt.trace.json.gz
"""

from __future__ import annotations

import argparse
import gzip
import re
from pathlib import Path

RECORDINGS = (
    "vim_tiny_fp32_bs4.pt.trace.json.gz",
    "gpt_small_ctx256.trace.json.gz",
    "deit_small_train_bf16_bs32.pt.trace.json.gz",
    "ddp_vit_small_2ranks/rank0.pt.trace.json.gz",
    "vim_tiny_fp16_bs4.pt.trace.json.gz",
)
CHROME = Path(__file__).resolve().parents[2] / "shared" / "data" / "chrome"
ID_STRIDE = 10_000_000
TIME = re.compile(rb'("ts": )(\d+)\.(\d{3})')
IDS = re.compile(rb'("(?:External id|correlation|id)": )(\d+)')
STEP = re.compile(rb"(ProfilerStep#)(\d+)")


def body(text: bytes) -> tuple[bytes, bytes]:
    """(everything up to the first event, the events without the closing bracket)"""
    start = text.index(b'"traceEvents": [') + len(b'"traceEvents": [')
    return text[:start], text[start : text.rindex(b"]")].rstrip()


def moved(events: bytes, nanoseconds: int, ids: int, steps: int) -> bytes:
    def time(match: re.Match[bytes]) -> bytes:
        ns = int(match[2]) * 1000 + int(match[3]) + nanoseconds
        return b"%b%d.%03d" % (match[1], ns // 1000, ns % 1000)

    def later(match: re.Match[bytes]) -> bytes:
        return b"%b%d" % (match[1], int(match[2]) + steps)

    return STEP.sub(later, IDS.sub(lambda m: b"%b%d" % (m[1], int(m[2]) + ids), TIME.sub(time, events)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("megabytes", type=int)
    parser.add_argument("output", type=Path)
    parser.add_argument(
        "--of", nargs="+", type=Path, help="the recordings that are repeated, as torch 2.13 writes them"
    )
    options = parser.parse_args()
    opener = gzip.open if options.output.suffix == ".gz" else open
    files = options.of or [CHROME / name for name in RECORDINGS]
    parts = [body(gzip.decompress(file.read_bytes())) for file in files]
    first = [min(int(m[2]) * 1000 + int(m[3]) for m in TIME.finditer(events)) for _, events in parts]
    written, tile, clock, count = 0, 0, 4 * 10**15, 0
    with opener(options.output, "wb") as out:
        out.write(parts[0][0])
        while written < options.megabytes * 1_000_000:
            _, events = parts[tile % len(parts)]
            text = moved(events, clock - first[tile % len(parts)], (tile + 1) * ID_STRIDE, tile * 100)
            out.write((b"," if tile else b"") + text)
            written += len(text)
            count += text.count(b'"ph": ')
            clock += 2 * 10**9
            tile += 1
        out.write(b'\n  ]\n, "traceName": "tiled.json"\n}\n')
    print(f"{options.output}: {written / 1e6:.1f} MB, {count} events, {tile} recordings")


if __name__ == "__main__":
    main()
