"""What `tracetui profile` keeps of what torch.compile wrote: no source code, nobody's home, within bounds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tracetui.analysis.attribution.generated import written
from tracetui.collectors.child import compiled
from tracetui.parsers import open_path

GENERATED = """\
# AOT ID: ['0_inference']
import torch
# kernel path: {home}/cache/ab/cab.py
# Topologically Sorted Source Nodes: [a, b], Original ATen: [aten.mul, aten.add]
# Source node to ATen node mapping:
triton_poi_0 = async_compile.triton('''secret = 1''')
def call(args):
        # [Provenance debug handles] triton_poi_0:1
        triton_poi_0.run(secret)
"""


@pytest.fixture
def torch(monkeypatch, tmp_path):
    """Stands for what torch.compile has in a process that compiled one function twice and broke its graph once."""
    monkeypatch.setenv("HOME", str(tmp_path / "people" / "ann"))
    graph = tmp_path / "cgraph.py"
    graph.write_text(GENERATED.format(home=Path.home()))
    own = f"/run/{compiled.__name__.partition('.')[0]}/script.py"
    stacks = {
        "triton_poi_0:1": [
            f'  File "{Path.home()}/net.py", line 7, in forward\n    y = secret\n'
            '  File "/lib/site-packages/torch/nn/modules/linear.py", line 1, in forward\n',
            f'  File "{own}", line 3, in watched\n',
        ]
    }
    compilation = SimpleNamespace(
        inductor_provenance={json.dumps(stacks)}, recompile_reason=None, co_filename=None, co_firstlineno=None
    )
    again = SimpleNamespace(
        inductor_provenance=None, recompile_reason="0/0: size of x\nmore", co_filename="net.py", co_firstlineno=5
    )
    frame = SimpleNamespace(filename=f"{Path.home()}/net.py", lineno=9)
    dynamo = SimpleNamespace(
        counters={"frames": {"total": 1}},
        get_compilation_metrics=lambda: [compilation, again],
        graph_break_reasons=[SimpleNamespace(reason="Tensor.item()", user_stack=[frame])] * 2,
    )
    loaded = SimpleNamespace(__file__=str(graph))
    codecache = SimpleNamespace(PyCodeCache=SimpleNamespace(modules=[loaded, loaded, SimpleNamespace()]))
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", dynamo)
    monkeypatch.setitem(sys.modules, "torch._inductor.codecache", codecache)
    return dynamo


def test_comments_and_frames_are_kept_and_no_code(torch, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    assert compiled.kept(out) == {
        "graph_breaks": [{"reason": "Tensor.item()", "at": "~/net.py:9", "count": 2}],
        "recompilations": [{"reason": "0/0: size of x", "at": "net.py:5", "count": 1}],
    }
    kept = {path.name: path.read_text() for path in (out / compiled.FOLDER).iterdir()}
    assert set(kept) == {"cgraph.py", compiled.STACKS}
    assert kept["cgraph.py"].splitlines() == [
        "# kernel path: cab.py",
        "# Topologically Sorted Source Nodes: [a, b], Original ATen: [aten.mul, aten.add]",
        "# [Provenance debug handles] triton_poi_0:1",
        '#  File "~/net.py", line 7, in forward; '
        'File "/lib/site-packages/torch/nn/modules/linear.py", line 1, in forward',
    ]
    assert "secret" not in "".join(kept.values())
    assert "ann" not in "".join(kept.values())
    assert "watched" not in kept[compiled.STACKS]


def test_a_kernel_s_details_have_its_nodes_and_the_program_s_line(torch, tmp_path):
    compiled.kept(tmp_path)
    arguments = {"kernel_file": "/tmp/torchinductor_ann/ab/cab.py", "kernel_backend": "triton"}
    event = {"ph": "X", "cat": "cpu_op", "name": "triton_poi_0", "ts": 1, "dur": 1, "pid": 1, "tid": 1}
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [{**event, "args": arguments}]}))
    found = written(open_path(trace, cache=False).main)
    assert found.nodes == {"cab.py": "a, b"}
    assert found.lines == {"triton_poi_0": ("~/net.py(7): forward",)}


def test_a_program_that_compiles_nothing_leaves_nothing(torch, tmp_path):
    torch.counters.clear()
    torch.get_compilation_metrics = list
    assert compiled.kept(tmp_path) is None
    assert not (tmp_path / compiled.FOLDER).exists()


@pytest.mark.parametrize(
    ("file", "function", "told"),
    [
        ("torch/_dynamo/convert_frame.py", "_compile", True),
        ("torch/_inductor/compile_fx.py", "fx_codegen_and_compile", True),
        ("torch/_inductor/lowering.py", "<module>", True),
        ("torch/_inductor/output_code.py", "__call__", False),
        ("torch/_dynamo/eval_frame.py", "compile_wrapper", False),
    ],
)
def test_compiling_is_told_from_what_was_compiled(file, function, told):
    space = {"look": compiled.is_under_way}
    program = "told = look()" if function == "<module>" else f"def {function}(): return look()"
    exec(compile(program, f"/env/site-packages/{file}", "exec"), space)
    assert (space["told"] if function == "<module>" else space[function]()) is told
