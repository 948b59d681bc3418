import ebrl
from good_stages import generate, simulate, train


@ebrl.workflow
def flow():
    policy = ebrl.policy("mlp", chunk=0)
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights, max_staleness=1)
    observations, trajectories = simulate("gymnasium:Pendulum-v1", actions)
    actions <<= generate(policy, observations, weights)
    weights <<= train(policy, trajectories)
