"""Derivatives of a network's outputs by its inputs."""
import torch

from common import FIX


def gradient(y, x):
    """The derivatives of y (n, 1) by all columns of x."""
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def diff(y, x, column):
    """The derivative of y (n, 1) by one column of x."""
    return gradient(y, x)[:, column:column + 1]


def diffs(y, x, columns):
    if FIX:
        all_of_them = gradient(y, x)
        return [all_of_them[:, c:c + 1] for c in columns]
    return [diff(y, x, c) for c in columns]
