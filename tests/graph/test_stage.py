from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

import ebrl
from ebrl.errors import UsageError
from ebrl.graph.draft import _OPTIONS, FAULT_OPTIONS, engine_options, positional_order
from ebrl.graph.model import Resources
from ebrl.graph.stage import Stage
from ebrl.runtime.environments import Environments


@ebrl.simulation
def simulate(env: ebrl.Simulator, chunk: ebrl.ActionChunk, *, noise: float = 0.0) -> Iterator[ebrl.Step]:
    """Walk."""
    for action in chunk:
        yield env.step(action)


@ebrl.training(gpus=0.5, cpus=2, memory_mib=512)
def train(
    state: ebrl.State, policy: ebrl.Policy, trajectories: ebrl.Batch[ebrl.Trajectory], rate: float = 0.1
) -> ebrl.Weights: ...


@ebrl.stage()
def scale(trajectory: ebrl.Trajectory, factor: float) -> ebrl.Trajectory | None:
    return None if factor == 0 else trajectory


@ebrl.stage
def judge(environments: Environments, weights: ebrl.Weights, *, episodes: int = 5) -> None: ...


class Walk:
    def step(self, action: np.ndarray) -> ebrl.Step:
        return ebrl.Step(ebrl.Observation(state=action), 1.0, False, False)


def test_outside_a_workflow_a_stage_is_its_function() -> None:
    assert [step.reward for step in simulate(Walk(), ebrl.ActionChunk(np.zeros((3, 2))))] == [1.0] * 3
    assert scale("a trajectory", factor=0) is None
    assert (simulate.__name__, simulate.__doc__) == ("simulate", "Walk.")
    assert list(inspect.signature(scale).parameters) == ["trajectory", "factor"]


def test_definition() -> None:
    definition = train.definition
    assert definition.kind == "training"
    assert [port.name for port in definition.inputs] == ["trajectories"]
    assert list(definition.settings) == ["state", "policy", "rate"]
    assert definition.resources == Resources(gpus=0.5, cpus=2, memory_mib=512)
    assert definition.place.endswith(f"test_stage.py:{inspect.getsourcelines(train.function)[1] + 1}")
    assert [port.name for port in simulate.definition.outputs] == ["observations", "trajectories"]
    assert [port.name for port in scale.definition.inputs] == ["trajectory", "factor"]
    assert judge.definition.outputs == ()


def test_engine_options_by_kind() -> None:
    faults = dict.fromkeys(FAULT_OPTIONS)
    assert engine_options(simulate.definition) == {"num_envs": 1, "num_steps": 64, "replicas": 1, **faults}
    assert engine_options(train.definition) == {"batch": None, "iterations": 1000}
    assert engine_options(scale.definition) == {"every": 1}
    assert engine_options(judge.definition) == {"every": 1, "num_envs": 1, **faults}


def test_the_readme_lists_the_engine_options() -> None:
    lines = (Path(__file__).parents[2] / "README.md").read_text().splitlines()
    rows = [[cell.strip(" `") for cell in line.split("|")[1:4]] for line in lines if line.startswith("| `")]
    listed = {(kind, option, default) for option, kinds, default in rows for kind in kinds.split(", ")}
    known = {
        (kind, option, "planner" if default is None else str(default))
        for kind, options in _OPTIONS.items()
        for option, default in options.items()
        if option not in FAULT_OPTIONS
    }
    assert {option for _, option, _ in listed} >= {*FAULT_OPTIONS}
    assert known <= listed


def test_positional_order_skips_state_and_starts_with_the_simulator() -> None:
    @ebrl.simulation
    def turned(chunk: ebrl.ActionChunk, speed: float, env: ebrl.Simulator) -> Iterator[ebrl.Step]: ...

    assert positional_order(train.definition) == ["policy", "trajectories", "rate"]
    assert positional_order(turned.definition) == ["env", "chunk", "speed"]


def test_a_decorator_takes_a_function() -> None:
    with pytest.raises(UsageError, match=r"@ebrl\.stage takes a function, got int"):
        ebrl.stage(3)


@pytest.mark.parametrize("amount", [0, -1, True, "2"])
def test_resources_are_positive_numbers(amount: object) -> None:
    with pytest.raises(UsageError, match="needs cpus above 0"):
        ebrl.generation(cpus=amount)


def test_unknown_resource_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        ebrl.training(memory=5)
    assert caught.value.hint == "did you mean 'memory_mib'?"
    assert "test_stage.py" in caught.value.place


def test_definitions_travel_with_cloudpickle() -> None:
    definition = cloudpickle.loads(cloudpickle.dumps(scale.definition))
    assert definition == scale.definition
    assert definition.function("t", 2.0) == "t"
    assert isinstance(pickle.loads(cloudpickle.dumps(simulate)), Stage)
