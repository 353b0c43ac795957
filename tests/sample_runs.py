"""The bundled recordings, for the tests that open them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

SAMPLES = Path(str(files("tracetui.samples")))
FP32 = SAMPLES / "vim_tiny_fp32_bs4.pt.trace.json.gz"
FP16 = SAMPLES / "vim_tiny_fp16_bs4.pt.trace.json.gz"
