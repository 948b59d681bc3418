"""Ready-made stages. Importing them imports neither torch nor a simulator."""

from ebrl.stages.evaluate import evaluate
from ebrl.stages.generate import generate
from ebrl.stages.simulate import simulate
from ebrl.stages.train_emulated import train_emulated
from ebrl.stages.train_ppo import train_ppo

__all__ = ["evaluate", "generate", "simulate", "train_emulated", "train_ppo"]
