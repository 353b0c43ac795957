"""Advantages and returns of a rollout."""
import torch

from common import FIX


def generalised_advantages(reward, value, done, gamma=0.99, lam=0.95):
    """reward, done: (T, N); value: (T + 1, N). Advantages (T, N) and the returns to fit the values to."""
    alive = 1 - done
    if FIX:
        a = reward + gamma * value[1:] * alive - value[:-1]
        c = gamma * lam * alive
        span = 1
        while span < a.size(0):  # recurrence by doubling: a_t + c_t * a_(t+span)
            a_next = torch.cat([a[span:], torch.zeros_like(a[:span])])
            c_next = torch.cat([c[span:], torch.zeros_like(c[:span])])
            a, c = a + c * a_next, c * c_next
            span *= 2
        return a, a + value[:-1]
    advantages = torch.zeros_like(reward)
    last = torch.zeros_like(reward[0])
    for t in reversed(range(reward.size(0))):
        delta = reward[t] + gamma * value[t + 1] * alive[t] - value[t]
        last = delta + gamma * lam * alive[t] * last
        advantages[t] = last
    return advantages, advantages + value[:-1]
