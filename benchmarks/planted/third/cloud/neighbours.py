"""Nearest neighbours in clouds of points."""
import torch


@torch.no_grad()
def nearest(points, k):
    """Indices (batch, n, k) of each point's k nearest, itself among them."""
    return torch.cdist(points, points).topk(k, largest=False, sorted=False).indices


def gather(values, index):
    """values (batch, n, c) at index (batch, n, k)."""
    b, n, c = values.shape
    offset = torch.arange(b, device=values.device).view(-1, 1, 1) * n
    return values.reshape(b * n, c).index_select(0, (index + offset).flatten()).view(*index.shape, c)
