import torch
from torch.nn import functional as F


class Weighting:
    """Running weights of the tasks, by the rate at which their losses fall."""

    def __init__(self, names, device, keep=0.99):
        self.names = names
        self.keep = keep
        self.mean = torch.ones(len(names), device=device)

    def __call__(self, losses):
        now = torch.stack([losses[n].detach() for n in self.names])
        self.mean.lerp_(now, 1 - self.keep)
        return dict(zip(self.names, (now / self.mean).softmax(0).unbind()))


def depth_loss(pred, target):
    return F.smooth_l1_loss(pred.squeeze(-1).float(), target)


def normal_loss(pred, target):
    return 1 - F.cosine_similarity(pred.float(), target, dim=-1).mean()


def label_loss(pred, target):
    return F.cross_entropy(pred.float().flatten(0, 1), target.flatten())


def edge_loss(pred, target):
    return F.binary_cross_entropy_with_logits(pred.squeeze(-1).float(), target)
