"""Kernels that Inductor made: their files, source nodes and the program's lines, from what lies beside a recording."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from chrome_file import ChromeFile
from sample_runs import OUTSIDE

from tracetui.analysis.attribution.generated import MOST_BYTES, STACKS, source_of, written
from tracetui.analysis.kernels import kernels
from tracetui.analysis.selection import select
from tracetui.parsers import Trace, open_path

if TYPE_CHECKING:
    from pathlib import Path

NAME, FILE = "triton_poi_fused_add_0", "/tmp/torchinductor_me/ab/cabc.py"
GRAPH = """\
import os; os.abort()
# kernel path: /somewhere/else/ab/cabc.py
# Topologically Sorted Source Nodes: [x, gated], Original ATen: [aten.add]
# Source node to ATen node mapping:
#   gated => add
triton_poi_fused_add_0 = async_compile.triton('triton_poi_fused_add_0', '''
# Topologically Sorted Source Nodes: [wrong], Original ATen: []
''')
"""


def opened(folder: Path) -> Trace:
    file = ChromeFile()
    file.event("cpu_op", NAME, (0, 20), kernel_file=FILE, kernel_hash="cabc", kernel_backend="triton")
    file.launch(NAME, (2, 4), (10, 30))
    file.operator("aten::mm", 30, 50, [[4, 4], [4, 4]])
    file.launch("gemm", (32, 34), (40, 60))
    return open_path(file.write(folder / "run.pt.trace.json"), cache=False).main


def test_the_file_and_the_nodes_are_in_the_table_of_kernels(tmp_path):
    (tmp_path / "inductor" / "xy").mkdir(parents=True)
    (tmp_path / "inductor" / "xy" / "cgraph.py").write_text(GRAPH)
    rows = {row["name"]: row for row in kernels(select(opened(tmp_path))).iter_rows(named=True)}
    assert (rows[NAME]["kernel_file"], rows[NAME]["source_nodes"]) == (FILE, "x, gated")
    assert (rows["gemm"]["kernel_file"], rows["gemm"]["source_nodes"]) == (None, None)


def test_stacks_give_the_innermost_line_of_each_call(tmp_path):
    stack = 'File "/src/train.py", line 7, in main\n  f(x)\nFile "/src/model.py", line {}, in forward\n  y = x + 1\n'
    said = {f"{NAME}:1": [stack.format(3)], f"{NAME}:2": [stack.format(9), stack.format(9)], "other:3": ["none"]}
    (tmp_path / STACKS).write_text(json.dumps(said))
    assert source_of(opened(tmp_path), NAME, FILE) == ("", "/src/model.py(3): forward, /src/model.py(9): forward")


@pytest.mark.parametrize("products", [2, 3])
def test_calls_of_a_compiled_graph_have_the_lines_that_they_were_made_from(tmp_path, products):
    """In the order of the graph's file; nothing is told where it ran more products than the file calls."""
    graph = f"c{'a' * 51}.py"
    calls = (("extern_kernels.mm:2", (7, 3)), (f"{NAME}:3", (8,)), ("extern_kernels.addmm:4", ()),
             ("extern_kernels.mm:5", (9,)))  # fmt: skip
    text = ""
    for call, lines in calls:
        text += f"# [Provenance debug handles] {call}\n"
        text += "".join(f'#  File "/src/net.py", line {line}, in forward\n' for line in lines)
    (tmp_path / graph).write_text(text)
    file = ChromeFile()
    file.python("net.py(1): forward", 0, 100)
    file.python(f"/tmp/torchinductor_me/aa/{graph}(40): call", 1, 99)
    for at, name in enumerate(["aten::mm", NAME, "aten::mm", "aten::mm"][: products + 1]):
        file.event("cpu_op", name, (10 * at + 10, 10 * at + 18))
        file.launch(f"{name} {at}", (10 * at + 12, 10 * at + 14), (10 * at + 20, 10 * at + 25))
    found = kernels(select(open_path(file.write(tmp_path / "run.pt.trace.json"), cache=False).main))
    told = ["/src/net.py(7): forward, /src/net.py(3): forward", "/src/net.py(8): forward", "/src/net.py(9): forward"]
    assert found.sort("name")["line"].to_list() == (
        [told[0], told[2], told[1]] if products == 2 else ["net.py(1): forward"] * 4
    )


@pytest.mark.parametrize("text", ["[1, 2]", "{", '{"a": 1, "b": [2]}', "[" * 100_000])
def test_other_peoples_stacks_may_be_anything(tmp_path, text):
    (tmp_path / STACKS).write_text(text)
    assert written(opened(tmp_path)).lines == {}


def test_large_files_links_and_pipes_are_left_alone(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "graph.py").write_text(GRAPH)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "large.py").write_text(GRAPH + "#" * MOST_BYTES)
    (folder / "link.py").symlink_to(outside / "graph.py")
    os.mkfifo(folder / "pipe.py")
    assert written(opened(folder)).nodes == {}


@pytest.mark.skipif(not (OUTSIDE / "serving").is_dir(), reason="the recordings beside the checkout are not here")
def test_a_public_recording(tmp_path):
    shutil.copytree(OUTSIDE / "serving" / "compiled", tmp_path / "compiled")
    rows = kernels(select(open_path(tmp_path / "compiled", cache=False).main))
    told = dict(rows.drop_nulls("source_nodes").select("name", "source_nodes").rows())
    assert told == {
        "triton_red_fused_add_mean_mul_pow_rsqrt_0": "pow_1, variance, rsqrt, hidden_norm, out_norm",
        "triton_poi_fused__unsafe_view_mul_silu_2": "silu, gated",
    }
    assert rows["kernel_file"].drop_nulls().len() == 4


def test_a_script_s_top_level_is_told_with_the_function_of_the_library_that_it_went_into(tmp_path):
    file = ChromeFile()
    file.python("vllm/run.py(3): main", 0, 100)  # above the script: what runs it
    file.python("ask.py(26): <module>", 1, 99)
    file.launch("own", (2, 4), (10, 20))
    file.python("transformers/generation/utils.py(9): generate", 5, 90)
    file.python("transformers/models/llama/modeling_llama.py(62): forward", 30, 60)
    file.python("torch/nn/functional.py(3): silu", 31, 50)
    file.launch("silu", (40, 44), (50, 60))
    rows = kernels(select(open_path(file.write(tmp_path / "run.pt.trace.json"), cache=False).main)).sort("name")
    assert rows["line"].to_list() == [
        "ask.py(26): <module>",
        "ask.py(26): <module>, in transformers/models/llama/modeling_llama.py(62): forward",
    ]
