from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

import ebrl
from ebrl.errors import UsageError, WorkflowError
from ebrl.graph import rules
from ebrl.graph.model import Edge, PolicyRef, SimulatorRef
from ebrl.runtime.environments import Environments


@ebrl.simulation
def simulate(env: ebrl.Simulator, chunk: ebrl.ActionChunk) -> Iterator[ebrl.Step]: ...


@ebrl.generation
def generate(
    policy: ebrl.Policy, observations: ebrl.Batch[ebrl.Observation], weights: ebrl.Weights
) -> ebrl.Batch[ebrl.ActionChunk]: ...


@ebrl.training
def train(
    policy: ebrl.Policy, trajectories: ebrl.Batch[ebrl.Trajectory], state: ebrl.State, *, rate: float = 0.1
) -> ebrl.Weights: ...


@ebrl.stage
def split(trajectory: ebrl.Trajectory, limit: float) -> tuple[ebrl.Trajectory, float]: ...


@ebrl.stage
def scale(trajectory: ebrl.Trajectory, factor: float = 1.0) -> ebrl.Trajectory: ...


@ebrl.stage
def judge(environments: Environments, policy: ebrl.Policy, weights: ebrl.Weights) -> None: ...


@ebrl.workflow
def lift(task: str = "gymnasium:Pendulum-v1?g=9.8", num_envs: int = 8, max_staleness: int = 1, rate: float = 0.1):
    policy = ebrl.policy("mlp", hidden=(64, 64))
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights, max_staleness=max_staleness)
    observations, trajectories = simulate(task, actions, num_envs=num_envs)
    actions <<= generate(policy, observations, weights)
    weights <<= train(policy, trajectories, rate=rate)
    judge(task, policy, weights, every=10)


def test_a_call_gives_the_graph() -> None:
    graph = lift(num_envs=4, rate=0.5)
    assert list(graph.nodes) == ["simulate", "generate", "train", "judge"]
    assert graph.parameters == {
        "task": "gymnasium:Pendulum-v1?g=9.8", "num_envs": 4, "max_staleness": 1, "rate": 0.5
    }  # fmt: skip
    options = {name: value for name, value in graph.nodes["simulate"].options.items() if value is not None}
    assert options == {"num_envs": 4, "num_steps": 64, "replicas": 1}
    assert graph.nodes["simulate"].values["env"] == SimulatorRef(
        backend="gymnasium", target="Pendulum-v1", options={"g": 9.8}
    )
    assert graph.nodes["train"].values["rate"] == 0.5
    options = {name: value for name, value in graph.nodes["judge"].options.items() if value is not None}
    assert options == {"every": 10, "num_envs": 1}
    assert Path(graph.folder) == Path(__file__).parent


def test_references_and_roles_of_a_node() -> None:
    nodes = lift().nodes
    simulator = SimulatorRef(backend="gymnasium", target="Pendulum-v1", options={"g": 9.8})
    policy = PolicyRef(backend="mlp", options={"hidden": (64, 64)})
    assert nodes["simulate"].reference(SimulatorRef) == ("env", simulator)
    assert nodes["simulate"].reference(PolicyRef) is None
    assert nodes["judge"].reference(SimulatorRef) == ("environments", simulator)
    assert nodes["judge"].reference(PolicyRef) == ("policy", policy)
    assert nodes["train"].stage.roles == {"policy": "policy", "state": "state"}
    assert nodes["judge"].stage.roles == {"environments": "environments", "policy": "policy"}


def test_none_for_an_option_means_its_default() -> None:
    graph = lift(num_envs=None)
    assert graph.nodes["simulate"].options["num_envs"] == 1


@pytest.mark.parametrize("explicit", [True, False])
def test_a_default_does_not_replace_what_a_stage_cannot_run_without(explicit: bool) -> None:
    @ebrl.stage
    def rate(weights: ebrl.Weights, environments: Environments = None, policy: ebrl.Policy = None) -> None: ...

    @ebrl.workflow
    def flow():
        policy = ebrl.policy("mlp")
        actions = ebrl.stream(ebrl.ActionChunk)
        weights = ebrl.latest(ebrl.Weights)
        observations, trajectories = simulate("gymnasium:Pendulum-v1", actions)
        actions <<= generate(policy, observations, weights)
        weights <<= train(policy, trajectories)
        rate(weights, **({"environments": None, "policy": None} if explicit else {}))

    with pytest.raises(WorkflowError) as caught:
        flow()
    (finding,) = caught.value.findings
    assert (finding.rule, finding.where) == ("wrong-argument" if explicit else "missing-argument", "rate.environments")


def test_policies_with_arrays_among_their_options_can_be_compared() -> None:
    @ebrl.workflow
    def flow():
        policy, twin = (ebrl.policy("mlp", scales=np.ones(3)) for _ in range(2))
        actions = ebrl.stream(ebrl.ActionChunk)
        weights = ebrl.latest(ebrl.Weights)
        observations, trajectories = simulate("gymnasium:Pendulum-v1", actions)
        actions <<= generate(policy, observations, weights)
        weights <<= train(twin, trajectories)

    assert flow().name == "flow"


def edges(graph: object) -> set[tuple[str, str, bool, bool]]:
    return {
        (f"{edge.source}.{edge.output}", f"{edge.target}.{edge.input}", edge.latest, edge.feedback)
        for edge in graph.edges  # type: ignore[attr-defined]
    }


def test_edges() -> None:
    assert edges(lift()) == {
        ("generate.output", "simulate.chunk", False, True),
        ("simulate.observations", "generate.observations", False, False),
        ("simulate.trajectories", "train.trajectories", False, False),
        ("train.output", "generate.weights", True, True),
        # Passed after the register was fed: no feedback.
        ("train.output", "judge.weights", True, False),
    }
    assert {edge.max_staleness for edge in lift(max_staleness=3).edges if edge.latest} == {3}


def test_several_outputs_settings_in_port_places_and_stages_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "LIMIT_RULES", ())  # it can be written down, but not be run yet

    @ebrl.workflow
    def flow():
        policy = ebrl.policy("mlp")
        actions = ebrl.stream(ebrl.ActionChunk)
        weights = ebrl.latest(ebrl.Weights)
        observations, trajectories = simulate("gymnasium:Pendulum-v1", actions)
        actions <<= generate(policy, observations, weights)
        good, bonus = split(trajectories, 2.0)
        weights <<= train(policy, scale(scale(good), factor=bonus))

    graph = flow()
    assert list(graph.nodes) == ["simulate", "generate", "split", "scale", "scale_2", "train"]
    # A plain value makes a setting of a parameter, an edge makes a port of it.
    assert graph.nodes["split"].values == {"limit": 2.0}
    assert [port.name for port in graph.nodes["split"].stage.inputs] == ["trajectory"]
    assert [port.name for port in graph.nodes["scale"].stage.inputs] == ["trajectory"]
    assert [port.name for port in graph.nodes["scale_2"].stage.inputs] == ["trajectory", "factor"]
    assert ("split.output_2", "scale_2.factor", False, False) in edges(graph)


def test_all_findings_of_a_group_are_reported_at_once() -> None:
    @ebrl.workflow
    def flow():
        policy = ebrl.policy("mpl")
        weights = ebrl.latest(ebrl.Weights, max_staleness=-1)
        observations, trajectories = simulate("gymnasium:Pendulum-v1", num_envs=0)
        generate(policy, observations, weights)
        train(policy, trajectories)

    with pytest.raises(WorkflowError) as caught:
        flow()
    assert {finding.rule for finding in caught.value.findings} == {
        "option-value", "unconnected-input", "unfed-edge", "max-staleness", "unknown-policy"
    }  # fmt: skip
    assert all("test_workflow.py:" in finding.place and finding.hint for finding in caught.value.findings)


def test_parameters_are_checked() -> None:
    with pytest.raises(UsageError, match="workflow 'lift' has no parameter 'num_env'") as caught:
        lift(num_env=3)
    assert caught.value.hint == "did you mean 'num_envs'?"
    with pytest.raises(UsageError, match="too many positional arguments"):
        lift(1, 2, 3, 4, 5)
    assert lift.with_settings(["num_envs=2"]).nodes["simulate"].options["num_envs"] == 2


def test_a_workflow_inside_a_workflow_is_refused() -> None:
    @ebrl.workflow
    def outer():
        lift()

    with pytest.raises(UsageError, match="workflow 'lift' is called inside workflow 'outer'"):
        outer()
    assert lift().name == "lift"  # and nothing is left half open


def test_stages_are_plain_again_after_a_workflow_failed() -> None:
    @ebrl.workflow
    def flow():
        raise RuntimeError("no")

    with pytest.raises(UsageError, match="workflow 'flow' raised RuntimeError: no"):
        flow()
    assert scale("t") is None


def test_a_graph_travels_with_cloudpickle() -> None:
    graph = lift()
    copy = cloudpickle.loads(cloudpickle.dumps(graph))
    assert copy.edges == graph.edges
    assert isinstance(copy.edges[0], Edge)
    assert list(copy.nodes) == list(graph.nodes)


def test_an_option_in_the_address_wins() -> None:
    assert dict(ebrl.simulator("robosuite:Lift?horizon=60", horizon=40, seed=1).options) == {"horizon": 60, "seed": 1}
