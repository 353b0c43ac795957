# ruff: noqa: E402  torch is asked for first
"""What a built model does: steps under ranges, batches from memory, loaders and folders, types, and its account."""

from __future__ import annotations

import json
from collections import namedtuple
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tracetui.models import data, workload
from tracetui.models.errors import MissingRequirement, ModelError, WrongOption
from tracetui.models.ranges import Ranges
from tracetui.models.registry import find

if TYPE_CHECKING:
    from pathlib import Path

SMALL: dict[str, dict[str, Any]] = {
    "vim_tiny": {"batch": 2, "img_size": 32, "depth": 2},
    "topk_deit_tiny": {"batch": 2, "img_size": 64, "depth": 4, "keep": 0.5},
    "gpt_small": {"batch": 2, "ctx": 16, "depth": 1},
    "mlp": {"batch": 3, "depth": 2},
}
ATTENTION = ["scaled dot product attention", "computing attention scores", "computing softmax", "final matmul"]


def build(name: str, **options: Any) -> Any:
    return find(name).build({**SMALL[name], **options})


def ranges_of(run: Any) -> list[tuple[str, str | None]]:
    """The ranges that the profiler saw, each with the one around it."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        run()
    events = [event for event in profiler.events() if event.is_user_annotation]
    spans = sorted((event.time_range.start, -event.time_range.end, event.name) for event in events)
    found, open_ones = [], []
    for start, end, name in spans:
        while open_ones and open_ones[-1][0] <= start:
            open_ones.pop()
        found.append((name, open_ones[-1][1] if open_ones else None))
        open_ones.append((-end, name))
    return found


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", list(SMALL))
def test_a_step_and_its_account(name: str, train: bool) -> None:
    work = build(name, train=train)
    batch = next(work.batches())
    before = [parameter.detach().clone() for parameter in work.model.parameters()]
    work.step(batch)
    changed = [not torch.equal(one, other) for one, other in zip(before, work.model.parameters(), strict=True)]
    assert any(changed) == train
    assert work.model.training == train
    assert work.samples_per_step == SMALL[name]["batch"]
    assert work.parameters == sum(parameter.numel() for parameter in work.model.parameters())
    described = json.loads(json.dumps(work.describe()))
    assert described["model"] == name
    assert described["batches_seen"] == [described["batch"]] == [SMALL[name]["batch"]]
    assert described["input_shapes"] == work.input_shapes(batch)
    assert described["flops_per_step"] == work.flops_per_step() > 0
    assert described["compulsory_bytes_per_step"] == work.compulsory_bytes_per_step() > 4 * work.parameters * 0.5
    assert (described["train"], described["optimizer"]) == (train, "AdamW" if train else None)
    assert (described["autocast"], described["compile"], described["device"]) == (False, None, "cpu")


def test_run_json_has_a_place_for_what_is_said() -> None:
    from tracetui.parsers.runs.manifest import parse

    work = build("vim_tiny", train=True, dtype="bf16", workers=0)
    work.step(work.make_batch())
    manifest = parse({"schema": "tracetui.run/1", "workload": json.loads(json.dumps(work.describe()))})
    assert manifest is not None
    assert manifest.notes == ()
    kept = manifest.workload
    assert (kept.model, kept.family, kept.backend, kept.dtype) == ("vim_tiny", "vim", "reference", "bf16")
    assert (kept.train, kept.grad_enabled, kept.autocast, kept.workers) == (True, True, True, 0)
    assert (kept.requested_batch, kept.batch, kept.input_shapes) == (2, 2, ((2, 3, 32, 32), (2,)))
    assert (kept.flops_per_step, kept.parameters) == (work.flops_per_step(), work.parameters)
    assert kept.compulsory_bytes_per_step == work.compulsory_bytes_per_step()


def test_the_defaults_are_what_the_list_says() -> None:
    work = find("mlp").build({})
    assert work.parameters == find("mlp").parameters
    assert work.flops_per_step() == find("mlp").cost.flops
    assert work.compulsory_bytes_per_step() == find("mlp").cost.compulsory_bytes


def test_training_goes_through_three_ranges() -> None:
    work = build("mlp", train=True)
    batch = work.make_batch()
    work.step(batch)
    found = [name for name, around in ranges_of(lambda: work.step(batch)) if around is None]
    assert [name for name in found if "#" not in name] == ["forward_pass", "backward_pass", "optimizer_step"]


def test_gpt_s_attention_has_the_course_s_ranges() -> None:
    work = build("gpt_small", depth=2)
    batch = work.make_batch()
    around = "forward_pass"
    block = [(ATTENTION[0], around), *((name, ATTENTION[0]) for name in ATTENTION[1:])]
    assert ranges_of(lambda: work.step(batch)) == [(around, None), *block, *block]
    assert work.describe()["ranges"] == [around, *ATTENTION]


def test_token_reduction_has_a_range_where_it_happens() -> None:
    work = build("topk_deit_tiny", reduction_loc=(1, 2))
    batch = work.make_batch()
    assert [name for name, _ in ranges_of(lambda: work.step(batch))].count("token_reduction") == 2
    whole = build("topk_deit_tiny", keep=1.0)
    assert "token_reduction" not in [name for name, _ in ranges_of(lambda: whole.step(batch))]


def test_ranges_reach_nvtx_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", lambda name: said.append(f"push {name}"))
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: said.append("pop"))
    ranges = Ranges(nvtx=True)
    with ranges("outer"), ranges.within("inner"):
        pass
    with pytest.raises(ValueError, match="inside"), ranges("broken"):
        raise ValueError("inside")
    assert said == ["push outer", "push inner", "pop", "pop", "push broken", "pop"]
    with Ranges(nvtx=True, inside=False).within("inner"):
        pass
    assert len(said) == 6
    assert ranges.seen == ["outer", "inner", "broken"]


def test_reduction_keeps_the_tokens_the_class_token_looks_at() -> None:
    from tracetui.models.networks.topk_deit import TokenReduction

    tokens = torch.arange(2 * 6 * 3, dtype=torch.float32).view(2, 6, 3)
    weights = torch.zeros(2, 4, 6, 6)
    weights[0, :, 0] = torch.tensor([0.9, 0.01, 0.03, 0.02, 0.04, 0.0])
    weights[1, :, 0] = torch.tensor([0.0, 0.1, 0.0, 0.0, 0.0, 0.2])
    weights[1, 0, 0, 3] = 0.6  # 0.15 on average over the heads
    kept = TokenReduction(0.5)(tokens, weights)
    assert torch.equal(kept[0], tokens[0, [0, 4, 2, 3]])
    assert torch.equal(kept[1], tokens[1, [0, 5, 3, 1]])


def test_reductions_must_be_in_blocks_that_there_are() -> None:
    assert build("topk_deit_tiny", depth=4).model.blocks[3].reduction.keep == 0.5
    with pytest.raises(WrongOption, match="names block 6, but there are 4"):
        build("topk_deit_tiny", reduction_loc="2,6")


def test_patches_must_fit_into_the_image() -> None:
    for name in ("vim_tiny", "topk_deit_tiny"):
        with pytest.raises(WrongOption, match="a patch of 16 px does not fit into an image of 8 px"):
            build(name, img_size=8)


def test_gpt_sees_nothing_of_what_comes() -> None:
    work = build("gpt_small")
    tokens, _ = work.make_batch()
    changed = tokens.clone()
    changed[:, 10:] = (changed[:, 10:] + 1) % 10_000
    with torch.inference_mode():
        one, other = work.model(tokens), work.model(changed)
    torch.testing.assert_close(one[:, :10], other[:, :10])
    assert not torch.allclose(one[:, 10:], other[:, 10:])


def test_gpt_s_attention_is_torch_s() -> None:
    from tracetui.models.networks.gpt import CausalSelfAttention
    from tracetui.models.sizes import GptShape

    torch.manual_seed(0)
    layer = CausalSelfAttention(GptShape(32, 64, 1, 4))
    query, key, value = torch.randn(3, 2, 4, 9, 8).unbind(0)
    future = torch.ones(9, 9, dtype=torch.bool).triu(1)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    torch.testing.assert_close(layer._attend(query, key, value, future), expected)


def test_fused_attention_computes_the_same() -> None:
    steps, fused = (build("gpt_small", depth=2, attention=kind) for kind in ("steps", "fused"))
    tokens = steps.make_batch()[0]
    with torch.inference_mode():
        torch.testing.assert_close(fused.model.eval()(tokens), steps.model.eval()(tokens), rtol=1e-4, atol=1e-4)
    batch = fused.make_batch()
    around = ranges_of(lambda: fused.step(batch))
    assert [name for name, _ in around] == ["forward_pass", ATTENTION[0], ATTENTION[0]]


def test_seeds_make_weights_and_data() -> None:
    one, same, other = build("mlp", seed=3), build("mlp", seed=3), build("mlp", seed=4)
    for left, right, equal in ((one, same, True), (one, other, False)):
        assert torch.equal(left.make_batch()[0], right.make_batch()[0]) == equal
        assert torch.equal(left.model.layers[0].weight, right.model.layers[0].weight) == equal


@pytest.mark.parametrize(("dtype", "autocast"), [("bf16", "bfloat16"), ("fp16", "float16")])
@pytest.mark.parametrize("name", list(SMALL))
def test_half_precision_is_autocast(name: str, dtype: str, autocast: str) -> None:
    work = build(name, dtype=dtype)
    seen = []
    work.model.register_forward_hook(lambda *given: seen.append(given[2].dtype))
    work.step(work.make_batch())
    assert seen == [getattr(torch, autocast)]
    assert work.describe()["autocast"]
    assert next(work.model.parameters()).dtype == torch.float32
    assert work.compulsory_bytes_per_step() < build(name).compulsory_bytes_per_step()


def test_fp16_training_scales_its_loss() -> None:
    work = build("mlp", dtype="fp16", train=True)
    work.step(work.make_batch())
    assert work.describe()["loss_scaling"]
    assert not build("mlp", dtype="bf16", train=True).describe()["loss_scaling"]


def test_tf32_on_a_cpu_is_said_to_be_fp32() -> None:
    assert build("mlp", dtype="tf32").notes == ["tf32 means nothing on a CPU: this is fp32"]


def test_tf32_flags_follow_the_dtype_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    try:
        for dtype, expected in (("tf32", True), ("fp32", False)):
            notes: list[str] = []
            workload._set_tf32(dtype, "cuda", notes)
            assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == (expected, expected)
            assert len(notes) == (dtype == "tf32")
        torch.backends.cudnn.allow_tf32 = True
        workload._set_tf32("bf16", "cuda", [])
        assert torch.backends.cudnn.allow_tf32
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def test_a_missing_device_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ModelError, match=r"no CUDA device: this torch .*; --device cpu runs on the CPU"):
        build("mlp", device="cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ModelError, match="no device cuda:2: there are 2, counted from 0"):
        workload.check_device("cuda:2")
    workload.check_device("cuda:1")


def test_compile_runs_the_compiled_model(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    def stand_in(model: Any) -> Any:
        compiled.append(model)
        return lambda *given: model(*given)

    monkeypatch.setattr(torch, "compile", stand_in)
    work = build("gpt_small", compile=True)
    work.step(work.make_batch())
    assert compiled == [work.model]
    # a range within the model would split the compiled graph
    assert work.ranges.seen == ["forward_pass"]
    monkeypatch.delattr(torch, "compile")
    with pytest.raises(ModelError, match=r"has no torch\.compile"):
        build("mlp", compile=True)


def test_without_workers_one_batch_is_used_again() -> None:
    work = build("mlp")
    first, second = islice(work.batches(), 2)
    assert first is second
    described = work.describe()
    assert (described["data"], described["data_loader"], described["workers"]) == ("random", False, None)


@pytest.mark.parametrize("name", ["mlp", "vim_tiny", "gpt_small"])
def test_with_workers_a_data_loader_brings_them(name: str) -> None:
    work = build(name, workers=0)
    batches = work.batches()
    first, second = next(batches), next(batches)
    assert not torch.equal(first[0], second[0])
    work.step(first)
    assert work.samples_per_step == SMALL[name]["batch"]
    assert work.describe()["workers"] == 0
    seen = [name for name, _ in ranges_of(lambda: next(batches))]
    assert any(name.startswith("enumerate(DataLoader)#") for name in seen)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_workers_are_processes() -> None:
    work = build("mlp", workers=1)
    batches = work.batches()
    work.step(next(batches))
    assert work.samples_per_step == 3
    batches.close()


def test_the_batch_is_counted_from_its_tensors() -> None:
    work = build("mlp", batch=3)
    inputs, labels = build("mlp", batch=5).make_batch()
    work.step((inputs, labels))
    assert work.samples_per_step == 5
    assert work.flops_per_step() == build("mlp", batch=5).flops_per_step()
    work.step(work.make_batch())
    described = work.describe()
    assert (described["requested_batch"], described["batch"], described["batches_seen"]) == (3, 3, [3, 5])


def test_batches_of_any_build() -> None:
    pair = namedtuple("pair", "x y")
    batch = {"a": [torch.zeros(2, 3), 7], "b": pair(torch.ones(4), "text")}
    assert data.shapes(batch) == [[2, 3], [4]]
    assert data.samples(batch) == 2
    assert data.samples([torch.tensor(1.0), "x"]) is None
    moved = data.mapped(batch, lambda tensor: tensor + 1)
    assert isinstance(moved["b"], pair)
    assert moved["b"].y == "text"
    assert moved["a"][1] == 7
    assert moved["a"][0].sum() == 6


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    for name, size, colour in (
        ("b/1.png", (40, 20), "red"),
        ("a/2.JPG", (8, 90), "blue"),
        ("a/x/3.bmp", (64, 64), "white"),
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with image.new("RGB", size, colour) as made:
            made.save(file)
    (tmp_path / "a" / "notes.txt").write_text("no image")
    return tmp_path


def test_a_folder_of_images(folder: Path) -> None:
    images = data.ImageFolder(str(folder), 32, 1000)
    assert [(file.name, label) for file, label in images.files] == [("2.JPG", 0), ("3.bmp", 0), ("1.png", 1)]
    pixels, label = images[2]
    assert (tuple(pixels.shape), label) == ((3, 32, 32), 1)
    red = [(1 - 0.485) / 0.229, -0.456 / 0.224, -0.406 / 0.225]
    torch.testing.assert_close(pixels.mean((1, 2)), torch.tensor(red), rtol=1e-4, atol=1e-4)


def test_steps_on_a_folder_of_images(folder: Path) -> None:
    work = build("vim_tiny", data=f"imagefolder:{folder}", batch=2)
    batches = work.batches()
    for _ in range(4):  # three images: the second batch begins the folder anew
        work.step(next(batches))
    assert (work.describe()["batches_seen"], work.describe()["data_loader"]) == ([2], True)
    assert work.input_shapes(work.make_batch()) == [[2, 3, 32, 32], [2]]
    with pytest.raises(ModelError, match="3 samples don't fill a batch of 4"):
        next(build("vim_tiny", data=f"imagefolder:{folder}", batch=4).batches())


def test_images_without_classes_and_damaged_ones(folder: Path, tmp_path: Path) -> None:
    flat = data.ImageFolder(str(folder / "b"), 16, 10)
    assert [label for _, label in flat.files] == [0]
    (folder / "b" / "broken.png").write_bytes(b"\x89PNG broken")
    with pytest.raises(ModelError, match=r"broken\.png: can't be read as an image \(UnidentifiedImageError\)"):
        data.ImageFolder(str(folder / "b"), 16, 10)[1]
    with pytest.raises(ModelError, match="no such folder"):
        build("vim_tiny", data=f"imagefolder:{tmp_path}/none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match="no images"):
        build("vim_tiny", data=f"imagefolder:{tmp_path}/empty")


def test_without_pillow_the_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracetui.models.needs.is_there", lambda module: module != "PIL")
    with pytest.raises(MissingRequirement, match="needs pillow, which is not installed: python -m pip install pillow"):
        build("vim_tiny", data=f"imagefolder:{tmp_path}")


def test_modules_have_names_worth_reading_in_a_profile() -> None:
    work = build("vim_tiny")
    classes = {type(module).__name__ for module in work.model.modules()}
    assert {"VisionMamba", "Block", "Mamba", "Scan", "CausalConv", "StepSize", "AddNorm", "PatchEmbed"} <= classes
