import ebrl
from good_stages import generate, simulate, train


@ebrl.stage
def score(trajectory: ebrl.Trajectory) -> float: ...


@ebrl.stage
def report(score: float) -> None: ...


@ebrl.workflow
def flow():
    policy = ebrl.policy("mlp")
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights)
    observations, trajectories = simulate("gymnasium:Pendulum-v1", actions)
    actions <<= generate(policy, observations, weights)
    weights <<= train(policy, trajectories)
    report(scores)
    scores = score(trajectories)
