# ruff: noqa: E402  torch is asked for first
"""The small server: its answers, what the ranges of its iterations say, and the work that is counted; needs torch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tracetui.models.registry import find
from tracetui.models.sizes import ANSWER
from tracetui.parsers.names.serving import Iteration, iteration_of

BATCH, CTX = 2, 12


def built(**options: Any) -> Any:
    work = find("gpt_server").build({"batch": BATCH, "ctx": CTX, "depth": 2, **options})
    work.keeps_result = True
    return work


@pytest.mark.parametrize("kv_cache", ["static", "growing"])
def test_answers_are_those_without_a_cache(kv_cache: str) -> None:
    work = built(kv_cache=kv_cache)
    (prompts, _) = batch = next(work.batches())
    for _ in range(2):  # the second request finds the caches of the first
        work.step(batch)
    gpt, tokens = work.model.gpt, prompts
    for count in range(CTX, CTX + 1 + ANSWER):
        future = torch.ones(count, count, dtype=torch.bool).triu(1)
        hidden = gpt.token_embeddings(tokens)
        for layer in gpt.layers:
            hidden = layer(hidden, gpt.cosine[:count], gpt.sine[:count], future)
        tokens = torch.cat([tokens, gpt.lm_head(gpt.ln_final(hidden))[:, -1:].argmax(-1)], 1)
    assert torch.equal(work.result, tokens[:, CTX:])


def test_ranges_tell_phase_batch_tokens_and_context() -> None:
    work = built()
    work.step(next(work.batches()))
    told = [found for name in work.ranges.seen if (found := iteration_of(name)) is not None]
    assert told[0] == Iteration("prefill", BATCH, BATCH * CTX, 0, BATCH * CTX, BATCH * CTX * CTX / 2)
    attended = [BATCH * (CTX + number) for number in range(1, 1 + ANSWER)]
    assert told[1:] == [Iteration("decode", BATCH, BATCH, BATCH, many, many) for many in attended]


def test_flops_are_those_of_the_counter_and_of_attention() -> None:
    counter = pytest.importorskip("torch.utils.flop_counter", reason="this torch counts no FLOPs")
    work = built()
    batch = next(work.batches())
    with counter.FlopCounterMode(display=False) as counted:
        work.step(batch)
    products = counted.get_flop_counts()["Global"][torch.ops.aten.mm]
    attended = CTX * CTX + sum(range(CTX + 1, CTX + 1 + ANSWER))
    assert work.flops_per_step() == products + 2 * 2 * BATCH * attended * 1024 * 2  # two products of 1024 in 2 blocks


def test_weights_have_the_number_type() -> None:
    work = built(dtype="bf16")
    assert {parameter.dtype for parameter in work.model.parameters()} == {torch.bfloat16}
    assert not work.describe()["autocast"]
