"""Records what mamba-ssm's kernels give for small weights and images, for the test that holds the reference to it.

Run on a machine with a CUDA GPU, mamba-ssm and causal-conv1d, from the repository's root::

    python benchmarks/vim_on_cuda.py tests/data/vim_on_cuda.pt

The file holds, per case, the shape, the weights, the images and the logits (fp32, TF32 off), and the versions of all
that computed them. `tests/test_models_vim.py` compares.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

import torch

from tracetui.models.networks import selective_scan
from tracetui.models.networks.vim import VisionMamba
from tracetui.models.sizes import VimShape

CASES = (
    VimShape(32, depth=2, img_size=48, patch=16, classes=10),
    VimShape(32, depth=2, img_size=64, patch=16, stride=8, classes=10),
    # long enough for more than one chunk of the reference's scan
    VimShape(16, depth=3, img_size=96, patch=8, stride=8, classes=4),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    output: Path = parser.parse_args().output
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    kernels = selective_scan.upstream()
    cases = []
    for seed, shape in enumerate(CASES):
        torch.manual_seed(seed)
        model = VisionMamba(shape, kernels)
        weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        images = torch.randn(2, 3, shape.img_size, shape.img_size)
        with torch.inference_mode():
            logits = model.cuda().eval()(images.cuda()).cpu()
            reference = VisionMamba(shape).eval()
            reference.load_state_dict(weights)
            worst = (reference(images) - logits).abs().max()
        print(f"{shape}: largest logit {logits.abs().max():.3g}, largest difference from the reference {worst:.2g}")
        cases.append({"shape": asdict(shape), "weights": weights, "images": images, "logits": logits.clone()})
    versions = {**kernels.versions, "torch": str(torch.__version__), "gpu": torch.cuda.get_device_name()}
    torch.save({"cases": cases, "versions": versions}, output)
    print(f"{output}: {output.stat().st_size:,} bytes, {versions}")


if __name__ == "__main__":
    main()
