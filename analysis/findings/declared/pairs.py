"""Rules on two runs, and on runs that differ in options."""

from tracetui.analysis.findings.declared.rule import Rule, Threshold, chosen

D1 = Rule(
    "D1",
    "The step became slower",
    subject="pair",
    needs=("several_steps",),
    rests_on=("steps",),
    thresholds={
        "regression_percent": chosen(5, "%", "how much longer B's median step takes, of A's"),
        "noise": Threshold(1, "x", "how many times as wide the 95 % interval must be to hold zero"),
    },
    advice="Start with the part that grew most; `tracetui diff A B --limit 0` lists every kernel and operator.",
    source="gpuprof, nsys-ai: regressions against a median of runs",
    compared="longer by more than {regression_percent:g} %, and zero outside of {noise:g} times the interval",
    explanation="""
    B's step is longer than A's by more than the limit *and* by more than chance.

    Of repeats (`tracetui diff A/ B/`, each a folder of runs of one configuration) a run's median step is one value:
    ``change = (mean B - mean A) / mean A``, and the 95 % interval of that difference, by Student's t over the runs,
    must not hold zero. Of two single runs ``change = (median B - median A) / median A``, and the interval is that of
    their steps (`step_difference.median_interval`). Two processes of one program may differ by more, so the work must
    explain the change as well: GPU work, launches or operators that B has more of must by themselves make the step
    longer by more than the limit and by half of the change; that all kernels take longer alike, as of a lower clock
    (K18), is no work. Without that the rule abstains. Of runs that did other
    work (another batch, another size of the input) no change is reported.""",
)

D2 = Rule(
    "D2",
    "Another number of kernels",
    subject="pair",
    needs=("gpu",),
    rests_on=("gpu", "steps"),
    thresholds={"change_percent": chosen(2, "%", "change of kernel launches per step, of A's")},
    advice="Added kernels cost their launches even if they are short.",
    source="HTA's trace diff, nsys-ai",
    compared="a change of more than {change_percent:g} % of A's kernels",
    explanation="""
    Kernels per step in B against A, and the kernels that explain the difference.

    ``change = (kernels B - kernels A) / kernels A``. More kernels may take less GPU time, so the finding states both.
    """,
)

D3 = Rule(
    "D3",
    "Another algorithm for the same work",
    subject="pair",
    needs=("gpu", "operators", "shapes"),
    rests_on=("gpu",),
    thresholds={"share_percent": chosen(1, "%", "GPU time of the kernels that changed, of A's GPU time")},
    advice="Compare with the choice fixed: torch.backends.cudnn.benchmark = True and enough warm-up in both runs, the "
    "same cuDNN and cuBLAS, the same memory format.",
    source="TraceLens",
    compared="more than {share_percent:g} % of A's kernel time",
    explanation="""
    An operator with the same input shapes and types launches other kernels in B than in A.

    Libraries choose among algorithms by heuristics, by timing (cudnn.benchmark) and by layout. The rule compares the
    kernel that takes the most time for each operator, shapes and types; shares are of A's GPU time in kernels.""",
)

D5 = Rule(
    "D5",
    "Less work, but not as much less time",
    subject="pair",
    needs=("manifest", "steps"),
    rests_on=("steps",),
    thresholds={
        "work_percent": chosen(10, "%", "how much less work B must have, of A's FLOPs"),
        "lost_percent": chosen(10, "%", "share of the possible speed-up that is lost"),
    },
    advice="See what of the step does not shrink with the work: waiting for the host first (S2), then added kernels"
    " (D2).",
    compared="more than {lost_percent:g} % of the speed-up lost, with {work_percent:g} % less work or more",
    explanation="""
    Compares the speed-up with the work removed: ``lost = 1 - (time A / time B) / (FLOPs A / FLOPs B)``.

    FLOPs per step come from run.json; times are medians.""",
)

D11 = Rule(
    "D11",
    "Where the difference in GPU time comes from",
    subject="pair",
    needs=("gpu",),
    rests_on=("gpu", "steps"),
    thresholds={"change_percent": chosen(1, "%", "change of GPU time per step, of A's")},
    advice="Where the count moved, look for what launches it; where the duration moved, at shapes, types and clocks.",
    compared="a change of more than {change_percent:g} % of A's GPU time",
    explanation="""
    Splits the difference of GPU time per step exactly into a count and a mean effect per category of kernels.

    ``count effect = (calls B - calls A) x mean A``, ``mean effect = (mean B - mean A) x calls B``; a category that A
    lacks has only a count effect. The sum over categories is the difference, to the nanosecond.""",
)

D12 = Rule(
    "D12",
    "What the difference in step time is made of",
    subject="pair",
    needs=("timeline", "gpu", "steps"),
    rests_on=("gpu", "host", "steps"),
    thresholds={"change_percent": chosen(5, "%", "change of the average step, of A's")},
    advice="Look at the largest part first: the loader, synchronisation, launching, or GPU work.",
    compared="a change of more than {change_percent:g} % of A's average step",
    explanation="""
    Divides the average step of both runs among GPU work, the data loader, synchronisation and launching.

    The parts add up to the step, so their differences add up to its difference. Time in which a GPU works is GPU work,
    whatever the host does meanwhile; idle time goes to what the host did that made it late (`step_split`): it waited
    for data, it had waited for the GPU, or it launched and did something else. A difference that can't be told from
    chance is not divided.

    The steps are those of both runs' light recordings; of the runs as recorded where one has none, or where the host
    waits for data, which light recordings don't tell.""",
)

D9 = Rule(
    "D9",
    "Every point ran another batch than it names",
    subject="sweep",
    needs=("batch_seen", "steps"),
    thresholds={"batch_percent": chosen(2, "%", "how far the batch really seen may be from the one asked for")},
    advice="Fix the benchmark, then sweep again; no conclusion about batch sizes can be drawn from this one.",
    compared="off by more than {batch_percent:g} %",
    explanation="""
    V1 in every row: ``throughput x latency = samples per step``, or run.json's batch, is not the batch asked for.

    If that number is the same in all rows although the batch varies, all rows did the same work, and differences
    between them are noise. (If the latency was already divided by the batch, the number is 1 everywhere as well; the
    step times are then unknown.)""",
)

S4 = Rule(
    "S4",
    "Size-flat step time",
    subject="sweep",
    needs=("sizes", "steps"),
    rests_on=("steps",),
    thresholds={
        "change_percent": chosen(10, "%", "how far step times may be apart to be flat"),
        "work_ratio": chosen(2, "x", "how many times the work must grow"),
    },
    advice="Something other than the work decides at these sizes, most often launches and the host: put more samples"
    " into a step, or take CUDA graphs or torch.compile(mode='reduce-overhead').",
    compared="less than {change_percent:g} % while work grows {work_ratio:g} times",
    several=True,
    explanation="""
    Step times that stay within the limit while FLOPs at least double: launches are the bottleneck, not work.

    FLOPs come from run.json; without them, the size itself is a lower bound of how the work grows.""",
)

D8 = Rule(
    "D8",
    "A point that does not fit its neighbours",
    subject="sweep",
    needs=("sizes", "steps", "repeats"),
    rests_on=("steps",),
    thresholds={"sigmas": chosen(3, "x", "how many standard errors of the repeats it is off")},
    advice="Measure it again; if it stays, another algorithm or clock was chosen there: "
    "`tracetui diff` this point against its neighbour.",
    compared="more than {sigmas:g} standard errors",
    several=True,
    explanation="""
    Finds a point that its neighbours on the same line rule out by more than three standard errors of the repeats.

    With a larger batch, the step must not get shorter and samples per second must not fall, so a point must lie between
    what its neighbours allow (for other sizes: the step must not get shorter). The deviation of repeats is pooled over
    all points, because each has only a few. Without repeats the rule can't judge.""",
)

D6 = Rule(
    "D6",
    "Where a variant overtakes its baseline",
    subject="sweep",
    needs=("variants", "steps"),
    rests_on=("steps",),
    thresholds={"lost_percent": chosen(10, "%", "share of the possible speed-up lost that is worth a word")},
    advice="Choose by size: the variant from the crossover on, the baseline below.",
    several=True,
    explanation="""
    Finds the size at which ``log(time of the baseline / time of the variant)`` changes its sign.

    The size is interpolated on a logarithmic axis; the interval is where the gain may be zero within two standard
    errors of the repeats. If the sign never changes, the finding says "no crossover in range". It also states the work
    removed (FLOPs of run.json) and how much of the possible speed-up is lost (D5).""",
)
