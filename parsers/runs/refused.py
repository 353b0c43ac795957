"""Files of people who profile that hold nothing to open: what each is, by its beginning, and which file to give."""

from __future__ import annotations

import re

_SQLITE = "export the report as SQLite: nsys export --type=sqlite REPORT.nsys-rep"
_TORCH = "record with torch.profiler, or: tracetui profile -- python train.py"
_SUMS = rb'(?:[^\n]*\n){0,8}[^\n]*(?:Time ?\(%\)"?,"?Total Time|,"?\w*Med \(ns\)|Duration \(ns\)"?,"?CorrId)'
_REFUSED = (
    (
        rb"<\?xml[^>]*>\s*<session\b",
        "a saved session of NVIDIA's Visual Profiler, which holds no events",
        "give the file that `nvprof -o` wrote",
    ),
    (rb"[{\xfb][)\xa9]\x03", "a profile of Python's cProfile, which has no GPU work", _TORCH),
    (
        rb"(?is)\s*<(?:!doctype html|html|script).{0,30000}(?:MemoryViz\.js|add_local_files)",
        "the page of a memory snapshot",
        "give the .pickle that it was made of",
    ),
    (
        rb'(?s)\s*\{.{0,4000}"schema"\s*:\s*"[^"]{0,40}chakra',
        "an execution trace of PyTorch, which has no times of the GPU",
        "give the trace of torch.profiler beside it",
    ),
    (
        rb'(?s)(?!.{0,4000}"ph"\s*:)\s*\[\s*\{.{0,4000}"frame"\s*:\s*\{.{0,4000}"metrics"\s*:',
        "a tree of Triton's Proton: sums without events",
        'record with proton.start(data="trace")',
    ),
    (
        _SUMS,
        "a table of `nsys stats`: sums without events",
        f"give the .sqlite that it was made of, or {_SQLITE}",
    ),
    (
        rb'(?s)==\d+== NVPROF is profiling|(?:==\d+==[^\n]*\n)+"?(?:Type"?,"?Time|Start"?,"?Duration)',
        "what nvprof printed",
        "give the file that `nvprof -o FILE.nvvp` writes",
    ),
    (
        rb"(?:timestamp|index|name|utilization\.gpu)[^\n]*(?:\[%\]|\[MiB\]|\[W\]|\[MHz\])",
        "a log of nvidia-smi, which has no kernels",
        "`tracetui profile` samples power and clocks beside a recording",
    ),
    (
        rb'"?Name"?,"?Calls"?,"?TotalDuration(?:Ns)?"?',
        "a table of rocprof: sums without events",
        "give the results.json, .db or kernel_trace.csv beside it",
    ),
    (
        rb'"?Index"?,"?KernelName"?,"?gpu-id',
        "kernels and counters of rocprof without their times",
        "give the results.json or .db that `rocprof --hip-trace` writes",
    ),
    (
        rb'"?(?:Guid"?,"?)?Correlation_Id"?,"?Dispatch_Id"?,"?Agent_Id',
        "counters of rocprofv3, which are not read",
        "give the kernel_trace.csv or the .db beside it",
    ),
    (
        rb"[\0\xff\xfe\s]*[{\[]\0",
        "JSON in UTF-16 or UTF-32, and JSON is UTF-8",
        "write it anew: iconv -f UTF-16 -t UTF-8 FILE",
    ),
    (rb"\x1f\x8b", "gzip within gzip", "unpack it once: gunzip FILE"),
    (rb"PAR1", "a Parquet file, as `nsys export` may write", _SQLITE),
    (rb"ARROW1", "an Arrow file, as `nsys export` may write", _SQLITE),
    (rb"\x89HDF\r\n", "an HDF5 file, as `nsys export` may write", _SQLITE),
    (rb'\{"Type":\s*\d+,\s*"\w+Event"', "JSON lines of Nsight Systems", _SQLITE),
)
OF_A_FOLDER = re.compile(r"stringids\.(?:parquet|arrow)")
"""One of the files of a folder that `nsys export` wrote, to say what all of them are."""


def refused(head: bytes) -> tuple[str, str] | None:
    """What a file is that begins so, and what to give; None if it is none of these."""
    has_sums = b"(%)" in head or b"(ns)" in head  # else they would be sought at each letter of a line of megabytes
    known = (entry for entry in _REFUSED if has_sums or entry[0] is not _SUMS)
    return next(((what, advice) for pattern, what, advice in known if re.match(pattern, head)), None)
