"""Names of the roofs, and when one is the limit: what a report needs without importing the analysis."""

PRECISIONS = {
    "fp64": "FP64", "fp32": "FP32", "fp16": "FP16", "bf16": "BF16", "fp64_tensor": "FP64 tensor",
    "tf32_tensor": "TF32 tensor", "fp16_tensor": "FP16 tensor", "bf16_tensor": "BF16 tensor",
    "fp8_tensor": "FP8 tensor", "int8_tensor": "INT8 tensor",
}  # fmt: skip
"""How precisions are written; tensor cores have rates of their own."""
AT_ROOF_PERCENT = 60.0
"""From here on a kernel counts as bound by the roof above it: where Nsight Compute draws its line between latency and
throughput."""
Roofs = tuple[dict[str, tuple[float, str, str]], "tuple[float, str, str] | None"]
"""Value, source and computation of the peak by precision, and of DRAM's."""
