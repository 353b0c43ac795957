"""Traces of JAX's profiler: Chrome traces whose metadata say what each thread is."""

from fuzz.chrome import Chrome


class Jax(Chrome):
    """What runs on a device is told by the names of processes and threads."""

    name = "jax"
    files = (("jax/h200.trace.json.gz", 0, 140), ("jax_cpu.trace.json.gz", 0, 120))
