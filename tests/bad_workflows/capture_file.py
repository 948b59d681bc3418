import ebrl
from good_stages import generate, simulate


def training_with(log):
    @ebrl.training
    def train(policy: ebrl.Policy, trajectories: ebrl.Batch[ebrl.Trajectory]) -> ebrl.Weights:
        print(len(trajectories), file=log)
        return ebrl.Weights.of(1, policy.weights())

    return train


train = training_with(open(__file__))


@ebrl.workflow
def flow():
    policy = ebrl.policy("mlp")
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights)
    observations, trajectories = simulate("gymnasium:Pendulum-v1", actions)
    actions <<= generate(policy, observations, weights)
    weights <<= train(policy, trajectories)
