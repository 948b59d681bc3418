import ebrl
from good_stages import generate, simulate, train


@ebrl.workflow
def flow():
    policy = ebrl.policy("mlp")
    small = ebrl.policy("mlp", hidden=(8,))
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights)
    observations, trajectories = simulate("gymnasium:Pendulum-v1", actions)
    actions <<= generate(small, observations, weights)
    weights <<= train(policy, trajectories)
