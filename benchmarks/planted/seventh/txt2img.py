"""Draws pictures from texts: guided sampling of a rectified flow, thirty steps to a picture."""
import torch

from common import DEV, TINY, drive, seed, size
from sampler.decoder import Decoder
from sampler.dit import DiT
from sampler.preview import Preview

BATCH = size(8, 2)
SIDE = size(64, 8)
DIM, HEADS, DEPTH = size(1152, 32), size(16, 2), size(16, 2)
WORDS = size(77, 5)
STEPS = 30
DTYPE = torch.float32 if TINY else torch.bfloat16


class Studio:
    """Draws batch after batch; one call of `step` is one step of the sampler."""

    def __init__(self, model, decoder, guidance=5.0):
        self.model, self.decoder, self.guidance = model, decoder, guidance
        self.preview = Preview(decoder)
        self.times = torch.linspace(1, 0, STEPS + 1, device=DEV)
        self.index = STEPS

    def order(self):
        text = torch.randn(BATCH, WORDS, DIM, device=DEV, dtype=DTYPE)
        none = torch.zeros_like(text)
        self.text = self.model.read(torch.cat([text, none]))
        self.z = torch.randn(BATCH, 4, SIDE, SIDE, device=DEV, dtype=DTYPE)
        self.index = 0

    @torch.inference_mode()
    def step(self):
        if self.index == STEPS:
            self.order()
        now, then = self.times[self.index], self.times[self.index + 1]
        with_text, without = self.model(torch.cat([self.z, self.z]), now, self.text).chunk(2)
        velocity = without + self.guidance * (with_text - without)
        self.preview(self.index, self.z - (now * velocity).to(DTYPE))
        self.z = self.z + ((then - now) * velocity).to(DTYPE)
        self.index += 1
        return self.z


def main():
    seed()
    with torch.device(DEV):
        model = DiT(DIM, HEADS, DEPTH, SIDE).to(DTYPE).eval()
        decoder = Decoder(size(128, 16)).to(DTYPE).eval()
    decoder = decoder.to(memory_format=torch.channels_last)
    if not TINY:
        for block in model.blocks:
            block.compile()
    drive("txt2img", Studio(model, decoder).step)


if __name__ == "__main__":
    main()
