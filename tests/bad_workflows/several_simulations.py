import ebrl
from good_stages import generate, simulate, train


@ebrl.workflow
def flow():
    policy = ebrl.policy("mlp")
    actions = ebrl.stream(ebrl.ActionChunk)
    other_actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights)
    observations, trajectories = simulate("gymnasium:Pendulum-v1", actions)
    actions <<= generate(policy, observations, weights)
    other_observations, _ = simulate("gymnasium:Pendulum-v1", other_actions)
    other_actions <<= generate(policy, other_observations, weights)
    weights <<= train(policy, trajectories)
