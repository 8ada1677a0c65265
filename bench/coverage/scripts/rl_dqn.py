"""DQN with a replay buffer on the device, a target network and an exploring policy."""

import random

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
random.seed(0)
size, width, moves = 5000, 84 * 84, 4


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(2592, moves)
    ).to(device)


online, target = network(), network()
target.load_state_dict(online.state_dict())
optimizer = torch.optim.RMSprop(online.parameters(), lr=2.5e-4)
frames = torch.zeros(size, 1, 84, 84, dtype=torch.uint8, device=device)
following = torch.zeros_like(frames)
actions = torch.zeros(size, dtype=torch.long, device=device)
rewards = torch.zeros(size, device=device)
state = torch.randint(0, 256, (1, 84, 84), dtype=torch.uint8)
for step in range(48):
    if random.random() < 0.5:
        action = random.randrange(moves)
    else:
        with torch.no_grad():
            action = online(state[None].to(device).float() / 255).argmax(1).item()
    new = torch.randint(0, 256, (1, 84, 84), dtype=torch.uint8)
    frames[step], following[step] = state.to(device), new.to(device)
    actions[step], rewards[step] = action, random.random()
    state = new
    if step >= 16 and step % 4 == 0:
        picks = torch.randint(0, step + 1, (16,), device=device)
        value = online(frames[picks].float() / 255).gather(1, actions[picks, None]).squeeze(1)
        with torch.no_grad():
            goal = rewards[picks] + 0.99 * target(following[picks].float() / 255).max(1).values
        loss = nn.functional.smooth_l1_loss(value, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
    if step % 20 == 0:
        target.load_state_dict(online.state_dict())
