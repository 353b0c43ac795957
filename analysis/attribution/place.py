"""Where in the program something happens: its own Python frame around a call, the module, operator and range.

Frames are the functions that a profiler recorded (``with_stack``), as Kineto names them: ``train.py(12): step``, where
the line is the function's first. A backward pass runs on a thread without frames; its operators name their forward
operators, whose frames they get. What has neither, such as adding up gradients, gets the frame that runs meanwhile.
"""

from __future__ import annotations

import re
import sys

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.attribution.calltree import NONE, lanes_of, parents_of, path_texts, row_ids
from tracetui.analysis.attribution.module_tree import AUTOGRAD_TASK, PREFIX, class_name, module_tree
from tracetui.analysis.base.names import distinct, mapped, matching, of_kinds
from tracetui.analysis.base.own_code import LIBRARY, RECORDER
from tracetui.analysis.base.remembered import kept
from tracetui.parsers import Trace
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.nesting import LaneClock, Nesting, nearest, nest

BACKWARD = "backward of "
"""Stands before the frame, module or range whose gradients are computed."""
LIBRARIES = frozenset(
    {"IPython", "PIL", "absl", "accelerate", "apex", "bitsandbytes", "causal_conv1d", "click", "composer",
     "cupy", "cv2", "datasets", "deepspeed", "dgl", "diffusers", "einops", "fairscale", "flash_attn", "flax",
     "fsspec", "functorch", "haiku", "huggingface_hub", "hydra", "ignite", "ipykernel", "jax", "jaxlib",
     "joblib", "keras", "kornia", "lightning", "lightning_fabric", "lightning_utilities", "liger_kernel",
     "mamba_ssm", "matplotlib", "megatron", "mlflow", "monai", "mpmath", "nemo", "networkx", "numpy", "nvidia",
     "omegaconf", "open_clip", "optax", "packaging", "pandas", "peft", "pluggy", "pyarrow", "pydantic",
     "pytest", "pytorch_lightning", "ray", "requests", "rich", "safetensors", "scipy", "sentencepiece",
     "skimage", "sklearn", "sympy", "tensorboard", "tensorflow", "timm", "tokenizers", "torch",
     "torch_geometric", "torch_scatter", "torch_sparse", "torchao", "torchaudio", "torchmetrics", "torchvision",
     "tqdm", "transformer_engine", "transformers", "triton", "trl", "typing_extensions", "urllib3", "vllm",
     "wandb", "xformers", "yaml"}
)  # fmt: skip
"""Import packages that are installed: a profiler leaves out the folder they are in."""
FRAME = re.compile(r"(?P<file>.+\.py|<ipython-input[^>]*>|<stdin>)\((?P<line>\d+)\): (?P<function>.*)")
PART = re.compile(r": <(?:listcomp|genexpr|dictcomp|setcomp|lambda)>$")
"""Functions that are a part of the one that they are written in."""


def is_own(frame: str) -> bool:
    """Whether a Python frame is the program's own, and no library's, Python's or the profiler's."""
    match = FRAME.fullmatch(frame)
    if match is None or LIBRARY.search(match["file"]):
        return False
    if match["function"] == "<module>":  # a script that runs, whatever it is called
        return True
    package = match["file"].partition("/")[0].removesuffix(".py")
    return package not in LIBRARIES and package not in sys.stdlib_module_names


def is_of_library(frame: str) -> bool:
    """Whether a Python frame is of a library that is written with torch, such as transformers."""
    match = FRAME.fullmatch(frame)
    package = _INSTALLED.sub("", match["file"]).partition("/")[0] if match else ""
    return package in LIBRARIES and package not in _BELOW


_INSTALLED = re.compile(r"^.*(?:site|dist)-packages/")
_BELOW = frozenset({"functorch", "numpy", "torch", "tqdm", "triton", "typing_extensions"})


def _of_stack(stack: str) -> str:
    """The innermost frame of its own in a stack, or nothing."""
    return next((frame for frame in stack.split(";") if is_own(frame)), "")


class Frames(Struct, frozen=True):
    """The program's own frames in a recording, and what they call; of each host row, -1 for none."""

    own: Bools
    """Whether it is such a frame: a Python function, or an operator whose stack was recorded."""
    frame: Ints
    """The innermost such frame around it, or itself; this and the next three have one more entry, for no row."""
    unit: Ints
    """What that frame called in which the row is, or itself: a library's function, a module, an operator."""
    operator: Ints
    """The outermost of the operators that directly enclose each other around it, or itself."""
    called: Ints
    """Of a unit: the operator in it if it is the only one, or itself; not of a module."""
    running: Nesting | None
    """The functions of the thread that launches most GPU work, of those that run such functions."""
    rows: Ints
    """Their host rows."""


@kept
def own_frames(trace: Trace) -> Frames:
    """Finds the program's own frames."""
    host, parent = trace.host, parents_of(trace.host)
    # the recorder stands between the program and what this calls, which is the program's call
    recorder = recorder_frames(host)
    parent = nearest(parent, ~recorder, parent)
    python = of_kinds(host["kind"], "python") & matching(host["name"], is_own)
    own = python | matching(host["stack"], lambda stack: bool(_of_stack(stack)))
    operator, api = of_kinds(host["kind"], "operator"), of_kinds(host["kind"], "runtime", "driver")
    row = np.arange(host.height)
    # one more entry, for no row at all
    is_own_row, is_operator = np.append(own, True), np.append(operator, False)
    top = nearest(parent, is_own_row[parent] | own, row)
    frame = np.where(own, row, np.where(parent[top] >= 0, parent[top], NONE)) if row.size else row
    called = nearest(parent, ~((operator & is_operator[parent]) | (api & (parent >= 0))), row)
    outermost = np.where(is_operator[called], called, NONE)
    rows = np.flatnonzero(python)
    running = None
    if rows.size:
        lane = lanes_of(host)[rows]
        rows = rows[lane == _launching_lane(trace, lane)]
        start, duration = host["start"].to_numpy()[rows], host["duration"].to_numpy()[rows]
        running = nest(np.zeros(rows.size, np.int64), start, duration, LaneClock(1, start, start + duration))
    unit = np.where(own | recorder | (frame < 0), NONE, top)
    called = _what_is_called(host, unit, outermost)
    frame = np.append(_first_calls(host, parent, own), NONE)[np.append(frame, NONE)]
    return Frames(own, frame, np.append(unit, NONE), np.append(outermost, NONE), called, running, rows)


def recorder_frames(host: pl.DataFrame) -> Bools:
    """Which host rows are functions of tracetui's own."""
    return of_kinds(host["kind"], "python") & matching(host["name"], lambda name: RECORDER in name)


def _launching_lane(trace: Trace, lanes: Ints) -> int:
    """Of these lanes, one for each function: that which launches most, or else has most operators, or functions."""
    launching, lane = launching_rows(trace.device), lanes_of(trace.host)
    functions = np.bincount(lanes)
    of_all = (lane[launching[launching >= 0]], lane[of_kinds(trace.host["kind"], "operator")], lanes)
    counts = [np.where(functions > 0, np.bincount(of, minlength=functions.size)[: functions.size], NONE)
              for of in of_all]  # fmt: skip
    return int(np.lexsort(counts[::-1])[-1])


class Around(Struct, frozen=True):
    """What is around some host rows: host rows, -1 for none."""

    frame: Ints
    """The innermost frame of the program's own."""
    module: Ints
    call: Ints
    """What is called there: the outermost operator, else what the frame called."""
    backward: Bools
    """Whether frame and module are those of the forward operator whose gradients the row computes."""


def around(trace: Trace, rows: Ints, when: Ints | None = None) -> Around:
    """Finds frame, module and operator of host rows (-1 for none); `when` is the time of each, by default its start."""
    host, frames, modules = trace.host, own_frames(trace), _modules(trace)
    frame, module, call, before = (of[rows] for of in (frames.frame, modules, frames.operator, forwards(trace)))
    of_task = np.flatnonzero((before >= 0) & (frame < 0))
    before = before[of_task]
    backward = np.zeros(rows.size, np.bool_)
    backward[of_task] = module[of_task] < 0
    module[of_task[backward[of_task]]] = modules[before[backward[of_task]]]
    frame[of_task] = frames.frame[before]
    other = np.flatnonzero(call < 0)
    call[other] = frames.called[frames.unit[rows[other]]]
    lost = np.flatnonzero((frame < 0) & ((rows >= 0) | (when is not None)))
    if frames.running is not None and lost.size:
        # of what another thread does, the frame that waits for it
        times = host["start"].to_numpy()[rows[lost]] if when is None else when[lost]
        at = frames.running.innermost_at(np.zeros(lost.size, np.int64), times)
        frame[lost] = np.where(at >= 0, frames.rows[at], NONE)
    return Around(frame, module, call, backward)


@kept
def forwards(trace: Trace) -> Ints:
    """Of each host row the forward operator whose gradients it computes, -1 for none; and one more, for no row."""
    forward = row_ids(trace.host["forward"])
    tasks = nearest(parents_of(trace.host), forward >= 0, np.arange(forward.size))
    found: Ints = np.append(forward, NONE)[np.append(tasks, NONE)]
    return found


@kept
def _modules(trace: Trace) -> Ints:
    """Of each host row the innermost module that it is in, or itself, -1 for none; and one more, for no row."""
    is_module = of_kinds(trace.host["kind"], "module")
    return np.append(nearest(parents_of(trace.host), is_module, np.arange(is_module.size)), NONE)


def _what_is_called(host: pl.DataFrame, unit: Ints, operator: Ints) -> Ints:
    """See `Frames.called`."""
    row = np.arange(host.height)
    outermost = np.flatnonzero((operator == row) & (unit >= 0))
    units, first, number = np.unique(unit[outermost], return_index=True, return_counts=True)
    called = np.append(np.where(of_kinds(host["kind"], "module"), NONE, row), NONE)
    called[units[number == 1]] = outermost[first[number == 1]]
    return called


def _first_calls(host: pl.DataFrame, parent: Ints, own: Bools) -> Ints:
    """The row that stands for each frame: itself, but of functions that ran when the recording began a later call.

    Of those the profiler tells the line that ran, of all others the function's first.
    """
    row = np.arange(host.height)
    starts = np.flatnonzero(matching(host["name"], lambda name: bool(_START.match(name))))
    at = int(starts[0]) if starts.size else NONE
    while at >= 0:
        if own[at] and (match := FRAME.fullmatch(host["name"][at])):
            alike = re.compile(rf"{re.escape(match['file'])}\((\d+)\): {re.escape(match['function'])}")
            lines = {int(found[1]): other for other in distinct(host["name"]) if (found := alike.fullmatch(other))}
            line = max((line for line in lines if line < int(match["line"])), default=None)
            if line is not None:
                row[at] = np.flatnonzero(matching(host["name"], lines[line].__eq__))[0]
        at = int(parent[at])
    return row


_START = re.compile(r"torch/autograd/profiler\.py\(\d+\): _?start_trace$")
"""The function of the profiler that begins a recording."""


class Place(Struct, frozen=True):
    """A place in the program, and what it takes."""

    frame: str
    """``train.py(12): step``; of backward work the forward's, behind `BACKWARD`; empty where none was recorded."""
    module: str
    """Classes of the modules around it: ``Encoder/Block/Linear``; empty where none was recorded."""
    range: str
    """The innermost range, where neither frame nor module was recorded."""
    operator: str
    """What is called there; empty where no operator was recorded."""
    line: int | None
    """The line of the frame's function that makes most of these calls, where samples of the clean program tell it."""
    calls: float
    """How often, per step."""
    ns: float
    """How long it takes, per step."""
    percent: float | None
    """The share of what was asked about."""
    on_gpu: bool
    """Whether its time is GPU time, or else the host's."""


_GROUP = ("frame", "backward", "module", "operator", "range")
_KNOWN = pl.any_horizontal(pl.col("frame", "module", "operator", "range").is_not_null())


def grouped(table: pl.DataFrame, ns: Ints, steps: int, *, on_gpu: bool) -> list[Place]:
    """Groups what `placed` returned by places, the most time first; what has none is left out.

    Args:
        table: a row per host row.
        ns: the time of each.
        steps: what "per step" divides by.
        on_gpu: whose time it is.
    """
    table = table.with_columns(ns=pl.Series(ns))
    groups = table.group_by(_GROUP).agg(pl.col("ns").sum(), pl.col("call").n_unique())
    if table["line"].null_count() < table.height:
        most = (
            table.group_by(*_GROUP, "line")
            .agg(of_line=pl.col("ns").sum())
            .sort("of_line", "line", descending=[True, False])
        )
        most = most.unique(_GROUP, keep="first", maintain_order=True)
        groups = groups.join(most, on=_GROUP, nulls_equal=True)
    else:
        groups = groups.with_columns(line=pl.lit(None, pl.Int64))
    groups = groups.with_columns(pl.col(pl.Categorical).cast(pl.String))
    order = "ns", "operator", "frame", "module", "range", "backward"
    groups = groups.sort(*order, descending=[True] + 5 * [False], nulls_last=True)
    total = float(ns.sum())
    return [
        _place(row, steps, 100 * row["ns"] / total if total else None, on_gpu=on_gpu)
        for row in groups.filter(_KNOWN).head(MOST_PLACES).iter_rows(named=True)
    ]


def range_names(trace: Trace, rows: Ints, when: Ints | None = None) -> pl.Series:
    """The innermost range at the start of each host row on its thread, apart from those of whole steps."""
    host = trace.host
    marks = np.flatnonzero(of_kinds(host["kind"], "annotation"))
    marks = marks[~matching(host["name"].gather(marks), lambda name: bool(_WHOLE_STEP.match(name)))]
    if not marks.size or not rows.size:
        return pl.repeat(None, rows.size, dtype=pl.Categorical, eager=True)
    lane, start = lanes_of(host), host["start"].to_numpy()
    clock = LaneClock(int(lane[-1]) + 1, start)
    nesting = nest(lane[marks], start[marks], host["duration"].to_numpy()[marks], clock)
    at = nesting.innermost_at(np.where(rows >= 0, lane[rows], NONE), start[rows] if when is None else when)
    names: pl.Series = host["name"].gather(or_null(np.append(marks, NONE)[at]))
    return names


_WHOLE_STEP = re.compile(r"ProfilerStep#\d+")
MOST_PLACES = 8
"""So many places are told."""


def placed(
    trace: Trace,
    rows: Ints,
    when: Ints | None = None,
    ranges: pl.Series | None = None,
) -> pl.DataFrame:
    """Frame, backward, module (path of classes), operator and range of each host row, and the row of its call.

    Args:
        trace: whose rows they are.
        rows: host rows; -1 where none is known.
        when: the time of each, where a row may be unknown.
        ranges: the range of each, which is told where neither frame nor module is known.
    """
    host, found = trace.host, around(trace, rows, when)
    tree = module_tree(trace)
    classes, _ = path_texts(tree.parent, map(class_name, tree.names))
    paths = pl.Series(classes, dtype=pl.String).cast(pl.Categorical)
    table = pl.DataFrame(
        {
            "frame": _frame_texts(trace, found.frame),
            "backward": found.backward,
            "module": paths.gather(or_null(tree.path_of(found.module))),
            "operator": mapped(host["name"].gather(or_null(found.call)), call_name, None, pl.Categorical()),
            "call": np.where(found.call >= 0, found.call, rows),
        }
    )
    nowhere = np.flatnonzero((table["frame"].is_null() & table["module"].is_null()).to_numpy())
    if ranges is not None:
        ranges = ranges.gather(nowhere)
    elif nowhere.size:
        ranges = range_names(trace, rows[nowhere], None if when is None else when[nowhere])
    named = pl.lit(None, pl.Categorical)
    if ranges is not None:
        place = np.full(rows.size, NONE)
        place[nowhere] = np.arange(nowhere.size)
        named = pl.lit(ranges.cast(pl.Categorical).gather(or_null(place)))
    return table.with_columns(range=named)


def call_name(name: str) -> str:
    """``AddmmBackward0`` of autograd's task, ``LSTMCell`` of a module's call, ``Tensor.item`` of a built-in method."""
    if match := _BUILT_IN.match(name):
        return f"{match[2].rpartition('.')[2]}.{match[1]}" if match[2] else match[1]
    if match := FRAME.fullmatch(name):
        return f"{match['function']} ({match['file'].removesuffix('/__init__.py').rpartition('/')[2]})"
    return class_name(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else name.removeprefix(AUTOGRAD_TASK)


_BUILT_IN = re.compile(r"<built-in (?:method|function) (\S+?)(?: of (?:type )?(.+?)(?: object)?(?: at 0x[0-9a-f]+)?)?>")


def _frame_texts(trace: Trace, rows: Ints) -> pl.Series:
    """The frame of each row that has one of its own."""
    host = trace.host
    names: pl.Series = host["name"].gather(or_null(rows))
    named = of_kinds(host["kind"], "python")[rows] | (rows < 0) if host.height else rows < 0
    if named.all():
        return names
    stacks = host["stack"].gather(or_null(rows)).cast(pl.String)
    own = {stack: _of_stack(stack) for stack in stacks.unique().drop_nulls()}
    texts = stacks.replace_strict(own, default=None, return_dtype=pl.String).cast(pl.Categorical)
    return pl.select(pl.when(pl.Series(named)).then(names).otherwise(texts)).to_series()


def innermost_units(trace: Trace) -> Ints:
    """What the program's own frames called in which no other frame of its own runs."""
    frames, parent = own_frames(trace), parents_of(trace.host)
    around = frames.unit[parent[np.flatnonzero(frames.own)]]
    outer = np.zeros(trace.host.height + 1, np.bool_)
    outer[around] = True
    return np.flatnonzero((frames.unit[:-1] == np.arange(trace.host.height)) & ~outer[:-1])


def launching_rows(device: pl.DataFrame) -> Ints:
    """The host row of the call that launched each device row, or of the operator around it; -1 for none.

    Of a replayed kernel it is the operator that was captured, which stands below the launch of the graph.
    """
    launch, operator = row_ids(device["launch"]), row_ids(device["operator"])
    return np.where((launch >= 0) & (operator < launch), launch, operator)


def frames_around(trace: Trace, row: int) -> list[str]:
    """The program's own frames that led to a host row, the innermost first; of backward work the forward's."""
    found, frames = around(trace, np.array([row])), own_frames(trace)
    parent, at = parents_of(trace.host), int(found.frame[0])
    rows: list[int] = []
    while at >= 0:
        rows.append(at)
        at = int(frames.frame[parent[at]])
    texts = [str(text) for text in _frame_texts(trace, np.array(rows, np.int64))]
    return [f"{BACKWARD}{texts[0]}", *texts[1:]] if texts and found.backward[0] else texts


def or_null(rows: Ints) -> pl.Series:
    """Row numbers, with null in place of negative ones."""
    numbers = pl.Series(rows)
    return pl.select(pl.when(numbers >= 0).then(numbers)).to_series()


def _place(row: dict[str, object], steps: int, percent: float | None, *, on_gpu: bool) -> Place:
    frame, module = str(row["frame"] or ""), str(row["module"] or "")
    return Place(
        frame=f"{BACKWARD}{frame}" if frame and row["backward"] else frame,
        module=f"{BACKWARD}{module}" if module and row["backward"] and not frame else module,
        range=str(row["range"] or ""),
        operator=str(row["operator"] or ""),
        line=row["line"],  # type: ignore[arg-type]
        calls=float(row["call"]) / steps,  # type: ignore[arg-type]
        ns=float(row["ns"]) / steps,  # type: ignore[arg-type]
        percent=percent,
        on_gpu=on_gpu,
    )
