import torch


def pairwise_iou(a, b):
    """a: (batch, n, 4), b: (batch, m, 4), corners; gives (batch, n, m)."""
    low = torch.maximum(a[:, :, None, :2], b[:, None, :, :2])
    high = torch.minimum(a[:, :, None, 2:], b[:, None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    area_a = (a[..., 2:] - a[..., :2]).clamp(min=0).prod(-1)
    area_b = (b[..., 2:] - b[..., :2]).clamp(min=0).prod(-1)
    return shared / (area_a[:, :, None] + area_b[:, None] - shared + 1e-7)


class TaskAligned:
    """Gives each object the places whose prediction fits it best in class and in overlap."""

    def __init__(self, top=13, alpha=1.0, beta=6.0):
        self.top, self.alpha, self.beta = top, alpha, beta

    @torch.no_grad()
    def __call__(self, scores, boxes, xy, objects, labels, real):
        iou = pairwise_iou(boxes, objects)
        left_top = xy[None, :, None] - objects[:, None, :, :2]
        right_bottom = objects[:, None, :, 2:] - xy[None, :, None]
        inside = torch.minimum(left_top, right_bottom).amin(-1) > 0
        fit = scores.sigmoid().gather(2, labels[:, None].expand(-1, scores.shape[1], -1))
        metric = fit.pow(self.alpha) * iou.pow(self.beta) * inside * real[:, None]
        best, where = metric.topk(self.top, dim=1)
        chosen = torch.zeros_like(metric).scatter_(1, where, (best > 0).float())
        value, owner = (chosen * (iou + 1e-6)).max(2)
        return owner, value > 0, iou.gather(2, owner[..., None])[..., 0]
