"""Rules on how the framework does the work of a step on the GPU."""

from tracetui.analysis.findings.declared import changes
from tracetui.analysis.findings.declared.rule import Rule, Threshold, chosen

F4 = Rule(
    "F4",
    "The optimizer is not fused",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "host", "whole"),
    thresholds={
        "share_percent": chosen(10, "%", "optimizer step on the host or its kernels, of the step"),
        "per_parameter": chosen(2, "", "kernels per parameter tensor from which it counts as a loop"),
        "loop_kernels": chosen(100, "", "the same where parameters are not recorded: kernels per call"),
    },
    advice="fused=True, else foreach=True.",
    changes=(changes.FUSED_OPTIMIZER,),
    source="PyTorch's profiler pattern matcher (optimizer single tensor)",
    explanation="""
    The optimizer updates its parameters one by one, or operation by operation, instead of all at once.

    A loop launches several kernels for every parameter tensor. ``foreach`` launches one per operation for many tensors,
    and each of these kernels reads and writes all of them again. ``fused`` launches one that does everything. The rule
    counts parameters by the gradients that autograd accumulates, and only kernels of single tensors make a loop. The
    whole optimizer step is at stake on the host, and on the GPU all but the operation of ``foreach`` that takes
    longest: a fused kernel reads and writes as much.""",
)

F6 = Rule(
    "F6",
    "Attention in separate kernels",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "host", "shares"),
    thresholds={"chains": chosen(2, "", "chains of GEMM, softmax, GEMM in the recording")},
    advice="scaled_dot_product_attention with a flash, memory-efficient or cuDNN backend.",
    changes=(changes.FUSED_ATTENTION,),
    source="gpuprof",
    explanation="""
    Scores are computed by one GEMM, scaled, masked, put through softmax, and multiplied by another GEMM.

    The rule looks at the order of launches on a stream: a GEMM, then only elementwise work and copies around a softmax
    (not a log-softmax, which is a loss), then a GEMM. Each of these kernels moves the matrix of scores through memory;
    a fused kernel keeps it on the chip. Everything that the fused kernel would replace is at stake: kernels and copies
    between the GEMMs, forward and backward, these GEMMs, the copies that change the layout of operands for their
    `aten::matmul`, and the one that lays out the result.""",
)

F7 = Rule(
    "F7",
    "Softmax, elementwise work, norms and copies take a large part",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "host", "shares", "whole"),
    thresholds={
        "softmax_percent": chosen(10, "%", "softmax, of kernel time"),
        "others_percent": chosen(30, "%", "elementwise work, norms and copies, of kernel time"),
    },
    advice="Fuse them: torch.compile, fused norms, fused attention.",
    changes=(changes.COMPILED,),
    compared="softmax above {softmax_percent}, or elementwise work, norms and copies above {others_percent} of"
    " kernel time",
    explanation="""
    Kernels that compute little for each byte take a large part of the time: fusing them saves trips to memory.

    Categories come from the kernels' names. Kernels that a compiler has already fused (Inductor's Triton kernels, XLA's
    fusions) do not count. A fused attention keeps softmax on the chip. Any other fused kernel must still read and write
    its data once, so the longest of each uninterrupted chain of such kernels on a stream stays, and of a loop in it
    that moves data (a stencil, a scan) the longest of each pass, which needs what the pass before has written; the time
    and the launches of the rest are at stake. So are sums between two chains, as in a norm of separate operations. The
    names of a program's own kernels are its author's, so for a program without a framework the finding is only a
    remark.""",
)

F11 = Rule(
    "F11",
    "Changes of layout",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "host", "shares", "whole"),
    thresholds={"share_percent": chosen(5, "%", "flips, concatenations, transposes and copies, of kernel time")},
    advice="Views and strides in place of copies; channels_last; kernels that read in the order they need.",
    changes=(changes.CHANNELS_LAST, changes.COMPILED),
    compared="above {share_percent} of kernel time",
    explanation="""
    Kernels that only move data to another place or order: flips, concatenations, transposes, ``contiguous``.

    F12 judges copies that change the type. All time of these kernels and their launches are at stake.""",
)

F1 = Rule(
    "F1",
    "Matrix work in fp32 without TF32 or mixed precision",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "shares", "whole"),
    thresholds={
        "share_percent": chosen(10, "%", "fp32 GEMMs and convolutions on plain FMA units, of kernel time"),
        "capability": Threshold(8.0, "", "compute capability from which on tensor cores take fp32 inputs as TF32"),
    },
    advice="TF32 (one line), then bf16 autocast.",
    changes=(changes.TF32, changes.BF16),
    source="PyTorch's profiler pattern matcher (FP32 matmul), DLProf; ratios from NVIDIA's throughput tables",
    compared="above {share_percent} of kernel time, compute capability {capability:g} or later",
    explanation="""
    GEMMs and convolutions run in fp32 on the FMA units of a GPU that has tensor cores for them.

    The rule recognises them by name (``sgemm``, ``ffma``, ``simt_s``); if Nsight Compute measured tensor cores, its
    counters decide. Three things bound the gain: these kernels' share of the time, how much faster tensor cores are per
    SM and clock (fp16/bf16 at best), and how much of the saved time would shorten the step in a replay. In a run that
    waits for launches that is next to nothing. What their operators launch beside them (Fourier transforms, partial
    sums) belongs to the algorithm in fp32, and conversions of what they read are not needed in fewer bits: all of that
    time is in the bound too.""",
)

F2 = Rule(
    "F2",
    "Tensor cores are not used",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "shares", "whole"),
    thresholds={
        "used_percent": Threshold(0, "%", "kernels on tensor cores, of kernel time"),
        "eligible_percent": chosen(10, "%", "work that could run there, of kernel time"),
        "capability": Threshold(7.0, "", "compute capability from which on GPUs have tensor cores"),
    },
    advice="Automatic mixed precision; sizes that are multiples of 8.",
    changes=(changes.FP16,),
    source="torch-tb-profiler and DLProf",
    compared="{used_percent} on tensor cores and above {eligible_percent} that could be, compute capability"
    " {capability:g} or later",
    explanation="""
    There are GEMMs, convolutions or attention, and not one kernel of the run uses tensor cores.

    If Nsight Compute measured tensor cores, its counters decide, otherwise the kernels' names. Names of generated and
    custom kernels (Triton, XLA) don't tell, so the rule abstains if such kernels matter. Double precision does not
    count, nor does fp32 on GPUs that have TF32, which F1 judges.""",
)

F12 = Rule(
    "F12",
    "Conversions between types",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "host", "shares", "whole"),
    thresholds={"share_percent": chosen(3, "%", "kernels that convert types, of kernel time")},
    advice="Convert once: weights in the type they are used in, autocast around the whole step.",
    changes=(changes.COMPILED,),
    compared="above {share_percent} of kernel time",
    explanation="""
    Kernels that only convert between number formats, such as autocast inserts before each operator.

    If types were recorded (record_shapes=True), an ``aten::copy_`` between two types is a conversion; otherwise the
    names decide (``float16_copy``, ``LoadWithCast``). Each costs GPU time and a launch: the replay that bounds the gain
    leaves out both.""",
)

F3 = Rule(
    "F3",
    "Matrix sizes that do not suit tensor cores",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "shares"),
    thresholds={"share_percent": chosen(3, "%", "matrix work that reads less than 16 bytes at a time, of kernel time")},
    advice="Pad the sizes to multiples of 8 in 16-bit types (4 in TF32, 16 in 8-bit types).",
    source="PyTorch's profiler pattern matcher; NVIDIA's guide to matrix multiplication: operands aligned to 16 bytes",
    compared="above {share_percent} of kernel time",
    explanation="""
    Products run on tensor cores with kernels for operands whose rows do not begin at multiples of 16 bytes.

    A row of a contiguous matrix begins there if its length is a multiple of 16 bytes: 8 elements of a 16-bit type. For
    other lengths, libraries choose kernels that read a few bytes at a time, and often those of an older architecture.
    Their names tell how much they read (``align1``, ``ldg2``). What aligned kernels would take is not known; the bound
    supposes that they reach their roofs, or where these are not known that they take no time.""",
)

F20 = Rule(
    "F20",
    "Batch norms that could be folded into convolutions",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "host", "shares"),
    thresholds={"share_percent": chosen(3, "%", "batch norms after convolutions, of kernel time")},
    advice="Fold them into the weights of the convolutions before them, once.",
    compared="above {share_percent} of kernel time, and no training in the recording",
    explanation="""
    An inference runs batch norms as kernels of their own after convolutions.

    In inference a batch norm multiplies and adds constants of its channel, which the convolution's weights and bias can
    hold. The rule reports nothing if the recording holds a backward pass, an optimizer, or batch norms that compute
    statistics of their batch. All time of these kernels and their launches are at stake.""",
)

S14 = Rule(
    "S14",
    "Communication that no computation hides",
    needs=("timeline", "gpu"),
    rests_on=("gpu", "whole"),
    thresholds={"exposed_percent": Threshold(10, "%", "collectives while their GPU computes nothing, of the step")},
    advice="Start collectives earlier and in other sizes, so that computation runs beside them; send fewer bytes.",
    source="torch-tb-profiler (communication above 10 % of the step), HTA (overlap of communication and computation)",
    compared="exposed for {exposed_percent} of the step or more",
    limit="communication",
    explanation="""
    A GPU runs collectives and computes nothing meanwhile, for a good part of the step.

    Each GPU is judged by its own kernels. The gain is at most the exposed time of the worst GPU, as far as the step
    would end earlier without collectives. Since a collective's time is transfer and waiting for ranks that come later,
    which one rank's file can't tell apart, nothing of it is certain, and the finding is never critical.""",
)

F21 = Rule(
    "F21",
    "A growing tensor is copied to append to it",
    needs=("timeline", "gpu", "operators", "shapes"),
    rests_on=("gpu", "shares"),
    thresholds={
        "share_percent": chosen(5, "%", "these copies, of kernel time"),
        "factor": chosen(8, "x", "the old tensor, of what is appended"),
    },
    advice="Write into a buffer of the full size.",
    source="static caches of transformers and gpt-fast",
    compared="above {share_percent} of kernel time, for tensors {factor:g} times what is appended",
    explanation="""
    ``torch.cat`` of a large tensor and a small one moves all of the large one to add a little to it.

    Counted are calls of ``aten::cat`` whose largest input has several times the elements of all others together, where
    the size of that input changes from call to call: a cache of keys and values that grows with each token, a list of
    results. The gain is that of a replay without these kernels and without operators that get the grown tensor and take
    the host longer than a launch does, such as cuDNN's attention, which plans for each new length.""",
)

F22 = Rule(
    "F22",
    "Attention is given repeated heads or an explicit mask",
    needs=("timeline", "gpu", "operators", "shapes"),
    rests_on=("gpu", "shares"),
    thresholds={"share_percent": chosen(5, "%", "what the step would be shorter without them")},
    advice="enable_gqa=True in place of repeated heads, is_causal=True in place of a causal mask.",
    source="PyTorch's documentation of scaled_dot_product_attention",
    compared="{share_percent} of the step",
    explanation="""
    ``scaled_dot_product_attention`` gets keys and values whose heads were repeated in memory, or a mask as a tensor.

    Repeated heads are copies (``repeat_interleave``, ``repeat``, or ``expand`` and ``reshape``) between one attention
    and the next that have a part of its keys' elements and their width. A mask is seen among the inputs; what is in it
    is not recorded, so it may be one that is needed. The gain is that of a replay without these copies, and at most
    with attention at its roof and half of its products, as a causal mask leaves.""",
)

F24 = Rule(
    "F24",
    "A tensor blown up by broadcasting",
    needs=("timeline", "gpu", "operators", "shapes"),
    rests_on=("gpu", "shares"),
    thresholds={
        "share_percent": chosen(10, "%", "what the step would be shorter without it"),
        "factor": chosen(16, "x", "its elements, of those of the largest operand"),
    },
    advice="A matrix product in place of all pairs, or one fused kernel.",
    source="PyTorch's broadcasting semantics",
    compared="{share_percent} of the step, for results of {factor:g} times the elements of the largest operand",
    explanation="""
    An elementwise operator has small operands and a large result, such as the differences of all pairs of vectors.

    Counted is the GPU work of that operator, and of all with an operand of as many elements, backward too: each writes
    and reads the whole. What a matrix product or a fused kernel takes instead is not known, so the gain is an upper
    end.""",
)

F26 = Rule(
    "F26",
    "A large matrix that is only multiplied",
    needs=("timeline", "gpu", "operators", "shapes"),
    rests_on=("gpu", "shares"),
    thresholds={
        "share_percent": chosen(10, "%", "what the step would be shorter without it"),
        "factor": chosen(4, "x", "its shorter side, of what its factors sum over"),
    },
    advice="Multiply what it is made of: the other order of a product, factors one by one, a look-up, one pass.",
    source="associativity of the matrix product",
    compared="{share_percent} of the step, for sides of {factor:g} times what its factors sum over or more",
    several=True,
    explanation="""
    A matrix is written out that is larger than what it is made of, and all that reads it is a product.

    Known are a product of two thin factors (attention without a softmax, an adapter merged into a weight), one-hot
    rows, and a Jacobian (jacrev, jacfwd) that a vector is multiplied with. Between it and the product only scaling,
    sums, conversions and views may come, by the shapes of the operators that the same thread calls; a softmax, a mask
    or a product by element ends the search. Counted is the work that reads or writes it, backward too, and of the
    products what the other order spares; where another matrix is added to it, the gradient of its size, which that
    matrix does not need if it is not trained. A product of factors that is multiplied with itself, and then with a
    factor, is told to be of the other side, as far as its multiplications are fewer. What the small products take is
    not counted, so the gain is an upper end.""",
)

F27 = Rule(
    "F27",
    "Computed, and used in part",
    needs=("timeline", "operators"),
    rests_on=("gpu", "host", "whole"),
    thresholds={"share_percent": chosen(5, "%", "what the step would be shorter without the rest")},
    advice="Take the part that counts first, and compute then.",
    source="the operators' results, followed to what reads them while the program ran",
    compared="from {share_percent} of the step on, where half of a result or less is used",
    several=True,
    explanation="""
    Operators yield more than the program uses: a part is read, the rest is masked, rows are equal, or nobody reads it.

    `tracetui profile` follows the results of the program's own operators in three steps, after all recordings
    (`in_vain` in run.json), where nothing is compiled: which part of each is read, by what slices, indices and
    diagonals show; which part is hidden by a mask, or multiplied by zeros of a smaller tensor; whether the rows that a
    product, a convolution or a norm is given are equal to others. Work by element hands on what of its own result is
    used, and work by row whole rows. What a backward pass reads does not count, since the gradient of what is not used
    is zero. What cannot be seen, such as a tensor that a kernel of the program's own is given, counts as used; so does
    the result of what takes as long for a part (a sort, a recurrent network, a decomposition). The gain is that of the
    same work for what is used, backward too, so it is an upper end.""",
)

F25 = Rule(
    "F25",
    "Indexing, resampling or sorting in one place",
    needs=("timeline", "gpu", "operators"),
    rests_on=("gpu", "shares"),
    thresholds={"share_percent": chosen(15, "%", "what the step would be shorter without it")},
    advice="Index, resample or sort less: fewer channels, rows or candidates, or once.",
    source="PyTorch's documentation of these operators",
    compared="from {share_percent} of the step on",
    several=True,
    part_of=("F21", "F22", "F23", "F24", "F26", "F27", "S30", "S34", "S35", "S37"),
    explanation="""
    One function of the program spends much of the step in operators that neither multiply nor are elementwise.

    Counted are indexing (index, gather, scatter, masks), resampling (upsample, grid_sample) and sorting (sort, topk,
    unique, cumsum), with the work of their gradients, by the function of the program that calls them. Such work can
    often be less, as it commutes with what is linear, or is of more rows than are needed; how much is not known, so the
    gain is an upper end. What these operators call counts with them, and where a 1 × 1 convolution to fewer channels
    reads what is resampled, all on the way to it, by the part that is spared if it comes first. A boolean mask as an
    index is told by its search (nonzero). A sort counts where a slice of its result follows, which topk yields, or
    where its order is next compared with something (eq): the place of one is how many are greater. One that is read
    whole is needed.""",
)

F23 = Rule(
    "F23",
    "The gradient of a table is dense, and few of its rows are read",
    needs=("timeline", "gpu", "operators", "shapes"),
    rests_on=("gpu", "shares"),
    thresholds={
        "share_percent": chosen(5, "%", "what the step would be shorter without it"),
        "factor": chosen(8, "x", "the table's rows, of those that a step reads"),
    },
    advice="nn.Embedding(sparse=True), or EmbeddingBag, with an optimizer for it (SparseAdam, Adagrad, SGD).",
    source="PyTorch's documentation of nn.Embedding",
    compared="{share_percent} of the step, for tables of {factor:g} times the rows that a step reads",
    explanation="""
    ``nn.Embedding`` and ``nn.EmbeddingBag`` fill a gradient of the whole table with zeros, and the optimizer then
    updates every row of it.

    Counted are tables that embeddings read and whose gradients are accumulated, by shape; not those that a product
    reads too, as an output layer with tied weights does. The gain is that of a replay without the kernels that make
    the gradient, and at most without the optimizer's part that is the table's, of all elements with gradients.""",
)
