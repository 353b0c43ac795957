"""Rules on the machine's state during the run."""

from tracetui.analysis.findings.declared.rule import Rule, Threshold, chosen

T1 = Rule(
    "T1",
    "The hardware slowed down",
    needs=("power",),
    thresholds={
        "share_percent": chosen(5, "%", "of the samples in which something slowed the clock"),
        "clock_percent": Threshold(15, "%", "that the clock falls below its highest while hot or fully loaded"),
        "full_percent": chosen(90, "%", "load from which no governor lowers the clock"),
        "hot_c": Threshold(82, "C", "of the hottest zone"),
    },
    advice="Let it cool and check fan and supply; or measure in a power mode, or at a locked clock, that it can hold.",
    source="gpuprof; nvidia-smi's event reasons; alarms of the INA3221 sensors",
    compared="{share_percent} of the samples, any alarm, or {clock_percent} of the clock at {hot_c:.0f} °C or under a "
    "load of {full_percent}",
    explanation="""
    Heat, power or current slowed the GPU down during the run.

    The driver's reasons in the samples (thermal slowdown, power cap, power brake), over-current counters that rose or
    alarms that were raised during the run, or a clock 15 % below its highest at 82 °C or more. Where nothing gives
    reasons, as a log of tegrastats, a clock that falls so far while the GPU is fully loaded counts as slowed down. The
    recorded times are those of a slower GPU, and the next run may differ. A power cap alone is normal for large GPUs at
    full load and gets only a remark.""",
)

T2 = Rule(
    "T2",
    "The clock was not steady",
    needs=("timeline", "gpu"),
    doubts=("clock", "steps", "whole"),
    remark="the GPU did not run at one speed: averages over the steps hold for none of them",
    thresholds={
        "cv_percent": chosen(3, "%", "standard deviation of the sampled clock over its mean"),
        "faster_ratio": chosen(0.9, "x", "time of a kernel in the last steps over that in the first"),
        "slower_ratio": chosen(1.1, "x", "the same where it became slower: heat, power, or another program"),
        "averages_ratio": chosen(1.25, "x", "by which speeds differ so that no average holds"),
        "least_us": chosen(2, "us", "that a kernel must take to be compared"),
    },
    advice="Warm up for three seconds or more, and lock the clocks (nvidia-smi -lgc, jetson_clocks).",
    source="advice of nvbench and of PyTorch's benchmarks",
    compared="{cv_percent}, or outside of {faster_ratio} to {slower_ratio}",
    explanation="""
    The GPU's clock changed while the steps were recorded.

    Either the clocks sampled under load scatter (only samples during the recording count if there are at least three),
    or the same kernels, with the same grid, block and shapes of their operator, change from the first step to the last.
    They get faster while the governor is still raising the clock, and slower as heat, power or another program takes
    speed away. A change of speed changes nearly all kernels, so the median of their changes counts, weighted by their
    time.

    Without steps the first and the last third of the recording are compared, and kernels that hold half of their kernel
    time must change. The same kernel may then have done other work, so that it is never critical.""",
)

T3 = Rule(
    "T3",
    "The GPU could be faster than it was allowed to",
    needs=("power",),
    thresholds={"share_percent": chosen(95, "%", "of the chip's highest clock that its cap allows")},
    advice="Choose the fastest power mode (nvpmodel), or reset the application clocks (nvidia-smi -rac).",
    source="power modes of Jetson boards; nvidia-smi's application clocks",
    compared="below {share_percent}",
    explanation="""
    The power mode or an application clock keeps the GPU below its highest clock.

    Divides the cap in force by the chip's highest clock. The measurement holds for this cap only. The mode's name says
    little, since the same name means different clocks on different boards.""",
)

T4 = Rule(
    "T4",
    "The memory clock is capped",
    needs=("power",),
    thresholds={"share_percent": chosen(95, "%", "of the memory controller's highest clock")},
    advice="sudo nvpmodel -m ID with a mode that does not cap EMC (grep -A20 POWER_MODEL /etc/nvpmodel.conf | grep"
    " EMC).",
    source="power modes of Jetson boards",
    compared="below {share_percent}",
    explanation="""
    A Jetson's power mode caps its memory controller (EMC).

    Divides the cap by the controller's highest clock, which on Orin is 3199 MHz. Memory bandwidth falls in proportion:
    at 2133 MHz an Orin Nano has 68 GB/s instead of 102, and memory-bound kernels take 1.5 times as long.""",
)

T5 = Rule(
    "T5",
    "The machine swapped",
    needs=("power",),
    thresholds={
        "pages": chosen(256, "", "pages read back from swap during the run: 1 MiB"),
        "grown_mib": chosen(16, "MiB", "by which the used swap grew during the run"),
    },
    advice="Free memory before measuring: end other programs (on a Jetson: sudo systemctl isolate multi-user.target),"
    " use a smaller batch, record fewer steps without stacks.",
    source="gpuprof",
    compared="{pages:count} pages, or {grown_mib} MiB",
    explanation="""
    Memory ran short during the run: pages were read back from swap, or more swap was in use after it than before.

    Every such page fault stops the host until the disk has been read or zram has decompressed the page; a Jetson's GPU
    uses the same memory. The step times then measure the swap.""",
)
