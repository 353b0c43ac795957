"""Proximal policy optimisation for a game with actions of many parts."""
import pathlib
import random
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import DEV, drive, seed, size  # noqa: E402
from policy import Policy  # noqa: E402
from rollouts import Experience  # noqa: E402

PARTS, OBS, HIDDEN, COUNT, BATCH = size((32, 128, 512, 65536, 2048), (4, 8, 16, 64, 16))


def ppo_loss(policy, minibatch, clip=0.2):
    obs, actions, old_log_prob, advantage, returns = minibatch
    log_prob, entropy, value = policy.evaluate(obs, actions)
    ratio = (log_prob - old_log_prob).clamp(-5, 5).exp()
    gain = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
    return -gain.mean() + 0.5 * (value - returns).square().mean() - 0.01 * entropy.mean()


def main():
    seed()
    torch.set_float32_matmul_precision("high")
    rng = random.Random(1)
    choices = [rng.randint(3, 12) for _ in range(PARTS)]
    policy = Policy(OBS, HIDDEN, choices).to(DEV)
    opt = torch.optim.Adam(policy.parameters(), lr=3e-4, fused=True)
    minibatches = Experience(COUNT, OBS, choices).minibatches(BATCH)

    def step():
        loss = ppo_loss(policy, next(minibatches))
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    drive("actions", step)


if __name__ == "__main__":
    main()
