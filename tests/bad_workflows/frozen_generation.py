import ebrl
from good_stages import simulate, train


@ebrl.generation
def act(policy: ebrl.Policy, observations: ebrl.Batch[ebrl.Observation]) -> ebrl.Batch[ebrl.ActionChunk]:
    return policy.act(observations)


@ebrl.workflow
def flow():
    policy = ebrl.policy("mlp")
    actions = ebrl.stream(ebrl.ActionChunk)
    observations, trajectories = simulate("gymnasium:Pendulum-v1", actions)
    actions <<= act(policy, observations)
    train(policy, trajectories)
