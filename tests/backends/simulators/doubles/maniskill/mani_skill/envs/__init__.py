from mani_skill.envs.double import AskingEnv, TwoRobotEnv, WalkEnv
from mani_skill.utils.registration import REGISTERED_ENVS, EnvSpec

for spec in (
    EnvSpec("Walk-v1", WalkEnv, 5, []),
    EnvSpec("TwoRobotWalk-v1", TwoRobotEnv, 5, []),
    EnvSpec("PickYCB-v1", WalkEnv, 5, ["all_ycb"]),
    EnvSpec("Asking-v1", AskingEnv, 5, []),
):
    REGISTERED_ENVS[spec.uid] = spec
