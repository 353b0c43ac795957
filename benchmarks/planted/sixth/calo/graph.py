import torch

from common import FIX


@torch.no_grad()
def nearest(place, event, events, k):
    """Rows of the k nearest hits of the same event, for each hit."""
    if FIX:
        each = place.view(events, -1, place.shape[1])
        at = torch.cdist(each, each).topk(k, dim=2, largest=False).indices
        first = torch.arange(events, device=place.device) * each.shape[1]
        return (at + first[:, None, None]).flatten(0, 1)
    gap = torch.cdist(place, place)
    gap.masked_fill_(event[:, None] != event[None], float("inf"))
    return gap.topk(k, dim=1, largest=False).indices
