"""Recordings that tests open: single files kept for them, and the samples that ship with the package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"
FP32 = DATA / "vim_tiny_fp32_bs4.pt.trace.json.gz"
FP16 = DATA / "vim_tiny_fp16_bs4.pt.trace.json.gz"
GPT = DATA / "gpt_small_ctx256.trace.json.gz"
CLEAN, TRAIN = DATA / "gpt_clean", DATA / "gpt_train"

SAMPLES = Path(str(files("tracetui.samples")))
VIM, VIM_FP16, SWEEP = SAMPLES / "vim_tiny", SAMPLES / "vim_tiny_fp16", SAMPLES / "topk_deit_sweep"
