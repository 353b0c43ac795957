from torch import nn
from torch.nn import functional as F


class Res(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        groups = min(32, cin // 4)
        self.n1, self.c1 = nn.GroupNorm(groups, cin), nn.Conv2d(cin, cout, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(groups, cout), nn.Conv2d(cout, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x):
        y = self.c1(F.silu(self.n1(x)))
        return self.skip(x) + self.c2(F.silu(self.n2(y)))


class Decoder(nn.Module):
    """Latents (4 channels) to pictures of eight times the side."""

    def __init__(self, width):
        super().__init__()
        wide = 4 * width
        self.first = nn.Conv2d(4, wide, 3, padding=1)
        stages, cin = [], wide
        for cout in (wide, wide, 2 * width, width):
            stages.append(nn.Sequential(Res(cin, cout), Res(cout, cout)))
            cin = cout
        self.stages = nn.ModuleList(stages)
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, z):
        x = self.first(z)
        for i, stage in enumerate(self.stages):
            x = stage(x)
            if i < 3:
                x = F.interpolate(x, scale_factor=2, mode="nearest")
        return self.last(F.silu(x))
