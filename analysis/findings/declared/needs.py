"""What rules on runs may need, by name, in words that say how to record it."""

NEEDS = {
    "timeline": "a recording with a time line: a Chrome trace or an nsys export",
    "steps": "steps: call profiler.step(), or put an NVTX range around each",
    "job_steps": "steps: call profiler.step(), or put an NVTX range around each",
    "several_steps": "two steps or more",
    "gpu": "GPU kernels",
    "host": "host events",
    "operators": "operators: record with torch.profiler",
    "loader": "waits for data: record a torch DataLoader with torch.profiler, or put a range called data_loading"
    " around next(loader)",
    "frames": "Python functions: record with with_stack=True, as tracetui profile does",
    "modules": "calls of modules: record with with_modules=True and with_stack=True, as tracetui profile does",
    "annotations": "NVTX or record_function ranges",
    "api": "CUDA API calls",
    "shapes": "shapes: record with record_shapes=True",
    "counters": "Nsight Compute counters: ncu --set full … --csv --page raw",
    "manifest": "run.json: launch with tracetui profile",
    "power": "the machine's state: launch with tracetui profile",
    "ranks": "the recordings of several ranks: open their folder",
    "collectives": "collectives that several ranks share: open the folder of a job",
    "memory": "memory use: record with profile_memory=True, or give a memory snapshot",
}
NO_SHAPES = "shapes: record_shapes was on, but no operator of the recording has any"
"""What `Facts.missing` says of shapes where asking for them is no help."""
NOT_OF_TORCH = {
    "operators": "operators, which torch.profiler records of PyTorch programs only",
    "loader": "waits for data: put a range called data_loading around the reading of each batch",
    "shapes": "shapes of operators, which torch.profiler records of PyTorch programs only",
    "memory": "memory use, which PyTorch's allocator alone tells",
}
"""What `Facts.missing` says of these needs to programs of which it is known that they are not PyTorch's."""
