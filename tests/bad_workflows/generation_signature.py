import ebrl
from good_stages import simulate, train


@ebrl.generation
def generate(policy: ebrl.Policy, observation: ebrl.Observation, weights: ebrl.Weights) -> ebrl.ActionChunk: ...


@ebrl.workflow
def flow():
    policy = ebrl.policy("mlp")
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights)
    observations, trajectories = simulate("gymnasium:Pendulum-v1", actions)
    actions <<= generate(policy, observations, weights)
    weights <<= train(policy, trajectories)
