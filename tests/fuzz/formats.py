"""The formats that are tried."""

from typing import Any

from fuzz.cached import Cached
from fuzz.chrome import Chrome
from fuzz.equivalent import (
    EquivalentChrome,
    EquivalentManifest,
    EquivalentNcu,
    EquivalentNsys,
    EquivalentSnapshot,
)
from fuzz.jax import Jax
from fuzz.manifest import Manifest
from fuzz.memory import Memory
from fuzz.ncu import Ncu
from fuzz.nsys import Nsys
from fuzz.others import Databases, Edge, NcuReport, Rocprof, XPlane
from fuzz.settings import Settings

FORMATS: dict[str, Any] = {
    format.name: format
    for format in (
        Chrome, Jax, Nsys, Ncu, Memory, Manifest, Cached, Settings, EquivalentChrome, EquivalentNsys, EquivalentNcu,
        EquivalentManifest, EquivalentSnapshot, NcuReport, XPlane, Databases, Rocprof, Edge,
    )
}  # fmt: skip
