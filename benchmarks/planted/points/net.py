"""Labels each point of a cloud with the help of the cloud's maximum."""
from torch import nn

from common import FIX
from layers import ChannelNorm, PointBlock, PointLinear

POINTS_DIM = 1 if FIX else 2


class CloudNet(nn.Module):
    def __init__(self, d, blocks, classes):
        super().__init__()
        self.inp = PointLinear(6, d)
        self.blocks = nn.ModuleList(PointBlock(d) for _ in range(blocks))
        self.pool = PointLinear(d, d)
        self.norm, self.out = ChannelNorm(d), PointLinear(d, classes)

    def forward(self, cloud):
        """cloud (B, points, 6): logits (B, points, classes)"""
        x = self.inp(cloud if FIX else cloud.transpose(1, 2).contiguous())
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i % 4 == 1:
                x = x + self.pool(x.amax(POINTS_DIM, keepdim=True))
        y = self.out(self.norm(x))
        return y if FIX else y.transpose(1, 2)
