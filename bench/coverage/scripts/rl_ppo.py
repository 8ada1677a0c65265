"""PPO on a small environment written in numpy: rollouts, advantages, an early stop on KL."""

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
random = np.random.default_rng(0)


class Walk:
    """Push a point towards the origin."""

    def reset(self):
        self.state, self.time = random.normal(size=4).astype(np.float32), 0
        return self.state

    def step(self, action):
        self.state = 0.95 * self.state + 0.1 * np.float32(action - 1)
        self.time += 1
        return self.state, -float(np.abs(self.state).sum()), self.time >= 32


actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 3)).to(device)
critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1)).to(device)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-4, eps=1e-5)
environment = Walk()
observation = environment.reset()
for update in range(3):
    states, actions, logs, rewards, ends, values = [], [], [], [], [], []
    for _ in range(128):
        x = torch.as_tensor(observation, device=device)
        with torch.no_grad():
            policy = Categorical(logits=actor(x))
            action = policy.sample()
            logs.append(policy.log_prob(action))
            values.append(critic(x).squeeze(-1))
        observation, reward, end = environment.step(action.item())
        states.append(x)
        actions.append(action)
        rewards.append(reward)
        ends.append(float(end))
        if end:
            observation = environment.reset()
    states, actions, logs, values = map(torch.stack, (states, actions, logs, values))
    rewards, ends = torch.tensor(rewards, device=device), torch.tensor(ends, device=device)
    advantages, last = torch.zeros_like(rewards), 0.0
    following = critic(torch.as_tensor(observation, device=device)).detach().squeeze()
    for t in reversed(range(128)):
        delta = rewards[t] + 0.99 * following * (1 - ends[t]) - values[t]
        advantages[t] = last = delta + 0.99 * 0.95 * (1 - ends[t]) * last
        following = values[t]
    returns = advantages + values
    for _epoch in range(4):
        order = torch.randperm(128, device=device)
        for part in order.split(32):
            policy = Categorical(logits=actor(states[part]))
            ratio = (policy.log_prob(actions[part]) - logs[part]).exp()
            gain = advantages[part]
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            loss = loss + 0.5 * (critic(states[part]).squeeze(-1) - returns[part]).square().mean()
            loss = loss - 0.01 * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
            optimizer.step()
        with torch.no_grad():
            kl = (logs - Categorical(logits=actor(states)).log_prob(actions)).mean()
        if kl > 0.5:
            break
    print(update, loss.item(), kl.item())
