import torch

from common import FIX


def install(check_gradients=not FIX):
    """Switches for the whole run, called once at its start."""
    torch.backends.cudnn.benchmark = True
    torch.autograd.set_detect_anomaly(check_gradients)
