import numpy as np

import ebrl
from good_stages import generate, simulate

table = np.zeros((1000, 1000), dtype=np.float32)


@ebrl.training
def train(policy: ebrl.Policy, trajectories: ebrl.Batch[ebrl.Trajectory]) -> ebrl.Weights:
    return ebrl.Weights.of(1, {"table": table})


@ebrl.workflow
def flow():
    policy = ebrl.policy("mlp")
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights)
    observations, trajectories = simulate("gymnasium:Pendulum-v1", actions)
    actions <<= generate(policy, observations, weights)
    weights <<= train(policy, trajectories)
