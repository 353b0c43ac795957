"""Advantage actor-critic on rollouts of vectorised environments."""
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from agent import Agent, Rollouts, a2c_loss  # noqa: E402
from common import DEV, drive, seed, size  # noqa: E402
from returns import generalised_advantages  # noqa: E402

STEPS, ENVS = size((256, 1024), (16, 4))
OBS, ACTIONS, HIDDEN = size((64, 12, 512), (8, 3, 16))


def update(agent, opt, rollout):
    obs, action, reward, done = rollout
    logits, value = agent(obs)
    with torch.no_grad():
        advantage, target = generalised_advantages(reward, value.detach(), done)
    loss = a2c_loss(logits[:-1], value[:-1], action, advantage, target)
    opt.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(agent.parameters(), 0.5, foreach=True)
    opt.step()
    return loss.detach()


def main():
    seed()
    torch.set_float32_matmul_precision("high")
    agent = Agent(OBS, ACTIONS, HIDDEN).to(DEV)
    opt = torch.optim.Adam(agent.parameters(), lr=7e-4, fused=True)
    rollouts = Rollouts(STEPS, ENVS, OBS, ACTIONS, DEV)
    drive("a2c", lambda: update(agent, opt, rollouts.next()))


if __name__ == "__main__":
    main()
