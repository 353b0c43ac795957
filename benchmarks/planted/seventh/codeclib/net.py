import torch
from torch import nn
from torch.nn import functional as F


class Unit(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.c1 = nn.Conv1d(c, c, 7, padding=3 * dilation, dilation=dilation)
        self.c2 = nn.Conv1d(c, c, 1)

    def forward(self, x):
        return x + self.c2(F.elu(self.c1(F.elu(x))))


class Quantizer(nn.Module):
    """Residual vector quantisation with straight-through gradients."""

    def __init__(self, books, codes, dim):
        super().__init__()
        self.books = nn.Parameter(torch.randn(books, codes, dim) * 0.1)

    def forward(self, z):
        rest, total, loss = z, torch.zeros_like(z), 0.0
        for book in self.books:
            near = (rest @ book.T - 0.5 * book.square().sum(1)).argmax(-1)
            code = F.embedding(near, book)
            loss = loss + F.mse_loss(code, rest.detach()) + 0.25 * F.mse_loss(rest, code.detach())
            total, rest = total + code, rest - code.detach()
        return z + (total - z).detach(), loss


class Codec(nn.Module):
    def __init__(self, channels, width, dim, strides=(4, 4, 5, 6)):
        super().__init__()
        down, up, c = [nn.Conv1d(channels, width, 7, padding=3)], [], width
        for s in strides:
            down += [Unit(c, 1), Unit(c, 3), nn.ELU(), nn.Conv1d(c, 2 * c, 2 * s, s, (s + 1) // 2)]
            up = [nn.ELU(), nn.ConvTranspose1d(2 * c, c, 2 * s, s, (s + 1) // 2, output_padding=s % 2),
                  Unit(c, 1), Unit(c, 3)] + up
            c *= 2
        self.encoder = nn.Sequential(*down, nn.Conv1d(c, dim, 3, padding=1))
        self.quantizer = Quantizer(4, 1024, dim)
        self.decoder = nn.Sequential(nn.Conv1d(dim, c, 3, padding=1), *up, nn.ELU(),
                                     nn.Conv1d(width, channels, 7, padding=3))

    def forward(self, wave):
        z = self.encoder(wave).transpose(1, 2).float()
        q, loss = self.quantizer(z)
        return self.decoder(q.transpose(1, 2)), loss
