import ebrl
from good_stages import train


@ebrl.stage
def replay() -> ebrl.Trajectory: ...


@ebrl.workflow
def flow():
    policy = ebrl.policy("mlp")
    train(policy, replay())
