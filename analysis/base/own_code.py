"""Tells the program's own code from that of libraries, by its file."""

from __future__ import annotations

import re

LIBRARY = re.compile(
    r"(?:^|/)(?:site-packages|dist-packages|torchinductor_[^/]*)/|/lib/python\d|^<(?:frozen|__array_function__|string)"
    r"|(?:^|/)torch/(?:nn|optim|utils|autograd|distributed|ao|amp|cuda|jit|fx|profiler|export|_\w+|\w+\.py)"
)
"""Matches what is installed (site-packages), Python's own, torch wherever it stands, and generated code."""
