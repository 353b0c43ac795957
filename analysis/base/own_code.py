"""Tells the program's own code from that of libraries, by its file."""

import re

RECORDER = "tracetui_child/"
"""In the names of the frames that tracetui itself runs in the profiled program, around what the program calls."""
COMPILED = re.compile(r"(?:^|/)torchinductor_[^/]*/|(?:^|/)(\w\w)/c\1\w{45,52}\.py\b")
"""Matches what torch.compile wrote, which lies in a folder named by the first letters of its hash, wherever that is."""
LIBRARY = re.compile(
    rf"{COMPILED.pattern}|(?:^|/)(?:site-packages|dist-packages)/|{RECORDER}|/lib/python\d|(?:^|/)child/start\.py$"
    r"|^<(?:frozen|__array_function__|string)"
    r"|(?:^|/)torch/(?:nn|optim|utils|autograd|distributed|ao|amp|cuda|jit|fx|profiler|export|_\w+|\w+\.py)"
)
"""Matches what is installed (site-packages), Python's own, torch wherever it stands, and generated code."""
