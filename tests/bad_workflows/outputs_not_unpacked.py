import ebrl
from good_stages import generate, simulate, train


@ebrl.workflow
def flow():
    policy = ebrl.policy("mlp")
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights)
    trajectories = simulate("gymnasium:Pendulum-v1", actions)
    actions <<= generate(policy, trajectories[0], weights)
    weights <<= train(policy, trajectories)
