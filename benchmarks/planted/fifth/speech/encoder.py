import torch
from torch import nn
from torch.nn import functional as F


class SpeakerNet(nn.Module):
    """Convolutional stem, transformer, mean-and-deviation pooling, cosine classifier."""

    def __init__(self, n_mels, dim, depth, speakers):
        super().__init__()
        self.stem = nn.Conv1d(n_mels, dim, 5, stride=2, padding=2)
        self.place = nn.Parameter(torch.randn(1, 512, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, dim // 64, 4 * dim, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.neck = nn.Linear(2 * dim, 192)
        self.classes = nn.Parameter(torch.randn(speakers, 192) * 0.05)

    def forward(self, mel):
        x = self.stem(mel).transpose(1, 2)
        x = self.body(x + self.place[:, :x.shape[1]])
        x = self.neck(torch.cat([x.mean(1), x.std(1)], -1))
        return 30.0 * F.linear(F.normalize(x, dim=-1), F.normalize(self.classes, dim=-1))
