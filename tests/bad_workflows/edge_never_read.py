import ebrl
from good_stages import generate, simulate, train


@ebrl.workflow
def flow():
    policy = ebrl.policy("mlp")
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights)
    ebrl_weights = ebrl.latest(ebrl.Weights)
    observations, trajectories = simulate("gymnasium:Pendulum-v1", actions)
    actions <<= generate(policy, observations, ebrl_weights)
    trained = train(policy, trajectories)
    weights <<= trained
    ebrl_weights <<= trained
