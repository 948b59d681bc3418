from __future__ import annotations

from collections.abc import Iterator

import pytest

import ebrl
from ebrl.graph.draw import FORMATS, dot, mermaid, text


@ebrl.simulation
def simulate(env: ebrl.Simulator, chunk: ebrl.ActionChunk) -> Iterator[ebrl.Step]: ...


@ebrl.generation
def generate(
    policy: ebrl.Policy, observations: ebrl.Batch[ebrl.Observation], weights: ebrl.Weights
) -> ebrl.Batch[ebrl.ActionChunk]: ...


@ebrl.training
def train(policy: ebrl.Policy, trajectories: ebrl.Batch[ebrl.Trajectory]) -> ebrl.Weights: ...


@ebrl.workflow
def flow(target: str = "Pendulum-v1"):
    policy = ebrl.policy("mlp")
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights)
    observations, trajectories = simulate(f"gymnasium:{target}", actions)
    actions <<= generate(policy, observations, weights)
    weights <<= train(policy, trajectories)


def test_text() -> None:
    assert (
        text(flow())
        == """\
workflow flow
  simulate  [simulation, gymnasium:Pendulum-v1, num_envs=1, num_steps=64, replicas=1]
    <- chunk: ActionChunk from generate.output (feedback)
    -> observations: Observation to generate.observations
    -> trajectories: Trajectory to train.trajectories
  generate  [generation, policy mlp, replicas=1]
    <- observations: Observation from simulate.observations
    <- weights: Weights from train.output (latest, staleness up to 1, feedback)
    -> output: ActionChunk to simulate.chunk
  train  [training, policy mlp, iterations=1000]
    <- trajectories: Trajectory from simulate.trajectories
    -> output: Weights to generate.weights
  rollout loop: simulate -> generate -> simulate"""
    )


def test_mermaid() -> None:
    lines = mermaid(flow()).splitlines()
    assert lines[0] == "flowchart LR"
    assert '  n1(["generate<br/>policy mlp<br/>replicas=1"])' in lines
    assert '  n2 -.->|"Weights"| n1' in lines
    assert '  n1 -->|"ActionChunk"| n0' in lines


def test_dot() -> None:
    lines = dot(flow()).splitlines()
    assert lines[0] == 'digraph "flow" {'
    assert '  "train" -> "generate" [label="Weights", style=dashed];' in lines
    assert lines[-1] == "}"


@pytest.mark.parametrize("name", FORMATS)
def test_quotes_are_escaped(name: str) -> None:
    drawn = FORMATS[name](flow(target='a"b'))
    assert {"text": 'a"b', "mermaid": "a#quot;b", "dot": 'a\\"b'}[name] in drawn
