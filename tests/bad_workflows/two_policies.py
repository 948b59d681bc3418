import ebrl
from good_stages import generate, simulate, train


@ebrl.stage
def distil(policy: ebrl.Policy, teacher: ebrl.Policy, trajectory: ebrl.Trajectory) -> ebrl.Trajectory: ...


@ebrl.workflow
def flow():
    policy = ebrl.policy("mlp")
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights)
    observations, trajectories = simulate("gymnasium:Pendulum-v1", actions)
    actions <<= generate(policy, observations, weights)
    weights <<= train(policy, distil(policy, policy, trajectories))
