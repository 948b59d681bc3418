import ebrl
from good_stages import generate, simulate


@ebrl.training
def tune(policy: ebrl.Policy, trajectories: ebrl.Batch[ebrl.Trajectory] | None = None) -> ebrl.Weights: ...


@ebrl.workflow
def flow():
    policy = ebrl.policy("mlp")
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights)
    observations, trajectories = simulate("gymnasium:Pendulum-v1", actions)
    actions <<= generate(policy, observations, weights)
    weights <<= tune(policy)
