"""Who made a kernel, and by which algorithm it works, as its name tells: libraries, frameworks, compilers."""

import re

TORCH = re.compile(r"\b(at|c10|c10d|torch|torchvision)::|^_ZN\w*?(2at6native|3c10)|^triton_[a-z]+_fused_")
"""Kernels of PyTorch's own libraries, and those that its compiler generates."""
XLA = re.compile(r"^((loop|input|wrapped)_\w*fusion|wrapped_\w+|(gemm_)?fusion)(_\w+)?$|^gemm_fusion_|^triton_gemm_")
INDUCTOR = re.compile(r"^triton_([a-z]+_fused|poi|red|per|tem|mm|for)_")
"""Kernels that torch.compile generates."""
INDUCTOR_STREAMS = re.compile(r"^triton_(poi|red|per)_fused_")
"""What Inductor makes of operators that stream through memory."""
FUSED_BY_COMPILER = re.compile(r"^triton_[a-z]+_fused_|^(loop|input)_\w*fusion(_\d+)?$|^(\w+_)?fusion(_\d+)?$")
"""Kernels of Inductor and XLA, which have fused what stands next to each other."""
OPENMP = re.compile(r"^__omp_offloading|^nvkernel_|(?<![a-z])(openmp|gomp|kmpc?)(?![a-z])", re.IGNORECASE)
LIBRARY = re.compile(
    r"^(sm\d+|kepler|maxwell|pascal|volta|turing|ampere|hopper|blackwell)_|cub(las)?::|cublas|cudnn|cutlass|nvjet|xmma|cutensor|cufft|cusparse|cusolver|nccl|rccl|^(Custom_)?Cijk_|miopen|rocblas|hipblas"
    r"|tensorrt|myelin|^__myl|tensorflow|Eigen::|mxnet|onnxruntime|cupy|cudapy|numba|^triton_|^tvm|thrust::|rocprim"
    r"|^SenRdma| (Cmpt (Exec|Prep)|Dma[IO])$",
    re.IGNORECASE,
)
"""Kernels of libraries, of other frameworks and of other devices: they don't tell what calls them."""

FUSED_OPTIMIZER = re.compile(
    r"Fused(Adam|SGD|Adagrad|Lamb)|fused_(adam|sgd)|AdamFunctor|DistAdam|^triton_(for|poi)_", re.IGNORECASE
)
FOREACH_OPTIMIZER = re.compile(r"multi_tensor_apply")
LOG_SOFTMAX = re.compile(
    r"log_?softmax|softmax_warp_\w+<[^<>]*?, *(?:\(int\))?\d+, *(?:true|1|\(bool\)1)\b", re.IGNORECASE
)
BACKWARD = re.compile(r"backward|bwd|SoftMaxBackward", re.IGNORECASE)
BATCH_NORM = re.compile(r"batch_?norm|bn_fw|(?<![a-z])bn_infer", re.IGNORECASE)
BATCH_NORM_OF_NCHW = re.compile(
    r"^(?!.*(channels_last|nhwc)).*(batch_norm_|bn_fw|bn_bw|BatchNormalization)", re.IGNORECASE
)
"""Kernels of a batch norm on images whose channels are not last."""
BATCH_STATISTICS = re.compile(
    r"collect_statistics|update_stats|bn_fw_tr|(batch_?norm|bn)\w*(train|stat)|reduce_statistics|welford", re.IGNORECASE
)
"""Kernels of a batch norm that computes the statistics of its batch, which only training does."""
BATCH_NORM_OPERATOR = re.compile(
    r"^aten::(cudnn_batch_norm|miopen_batch_norm|_?native_batch_norm\w*|_batch_norm_no_update)$"
)
TRAINS = re.compile(r"backward|Backward|bwd|dgrad|wgrad|AccumulateGrad")
"""Kernels and operators that compute gradients."""
