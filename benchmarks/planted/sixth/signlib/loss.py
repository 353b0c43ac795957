import torch

from common import FIX


def apart(a, b):
    return (a - b).square().sum(1)


def pair_distance(encoder, left, right):
    return apart(encoder(left), encoder(right))


def quintet_loss(encoder, model, genuine, forged, margin=0.4):
    """Hinge between the genuine distance and the distance of each forgery."""
    if FIX:
        anchor = encoder(model)
        near = apart(anchor, encoder(genuine))
        far = [apart(anchor, encoder(scan)) for scan in forged]
    else:
        near = pair_distance(encoder, model, genuine)
        far = [pair_distance(encoder, model, scan) for scan in forged]
    return torch.stack([(margin + near - d).clamp_min(0).mean() for d in far]).mean() + 0.1 * near.mean()
