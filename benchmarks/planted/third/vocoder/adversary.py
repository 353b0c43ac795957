"""The two halves of a step of adversarial training."""
import torch
import torch.nn.functional as F

from common import DEV, FIX, bf16


def towards(outputs, value):
    return sum(F.mse_loss(o.float(), torch.full_like(o, value, dtype=torch.float)) for o in outputs)


def spectrum(x, length):
    window = torch.hann_window(length, device=DEV)
    return torch.stft(x.squeeze(1).float(), length, length // 4, window=window, return_complex=True).abs()


class Adversaries:
    def __init__(self, generator, discriminator, lr=2e-4):
        self.generator, self.discriminator = generator, discriminator
        self.opt_g = torch.optim.AdamW(generator.parameters(), lr=lr, fused=True)
        self.opt_d = torch.optim.AdamW(discriminator.parameters(), lr=lr, fused=True)

    def discriminate(self, real, fake):
        self.opt_d.zero_grad()
        if FIX:
            fake = fake.detach()
        with bf16():
            loss = towards(self.discriminator(real), 1.0) + towards(self.discriminator(fake), 0.0)
        loss.backward(retain_graph=not FIX)
        self.opt_d.step()

    def generate(self, real, fake, length):
        self.opt_g.zero_grad()
        with bf16():
            judged = towards(self.discriminator(fake), 1.0)
        loss = judged + 45 * F.l1_loss(spectrum(fake, length), spectrum(real, length))
        loss.backward()
        self.opt_g.step()
        return loss.detach()
