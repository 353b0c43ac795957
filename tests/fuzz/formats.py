"""The formats that are tried."""

from __future__ import annotations

from fuzz.chrome import Chrome
from fuzz.jax import Jax

FORMATS = {format.name: format for format in (Chrome, Jax)}
