from __future__ import annotations

import pytest

import ebrl
from ebrl.errors import UsageError
from ebrl.graph.recorded import recorded
from ebrl.stages import evaluate, generate, simulate, train_ppo


@ebrl.workflow
def pendulum(judged: bool = True, videos: int = 0):
    policy = ebrl.policy("mlp")
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights)
    observations, trajectories = simulate("gymnasium:Pendulum-v1", actions)
    actions <<= generate(policy, observations, weights)
    weights <<= train_ppo(policy, trajectories)
    if judged:
        evaluate("gymnasium:Pendulum-v1", policy, weights, every=10, record_video=videos)


@pytest.mark.parametrize(("videos", "expected"), [(0, 1), (3, 3)])
def test_evaluations_record(videos: int, expected: int) -> None:
    graph = pendulum(videos=videos)
    node = recorded(graph, 50).nodes["evaluate"]
    assert (node.values["record_video"], node.values["record_every"]) == (expected, 50)
    assert "record_every" not in graph.nodes["evaluate"].values


def test_it_must_be_called_then() -> None:
    with pytest.raises(UsageError) as caught:
        recorded(pendulum(), 25)
    assert caught.value.where == "evaluate"
    assert caught.value.message == "it is called every 10 iterations, so it cannot record every 25"
    assert caught.value.hint == "choose a multiple of 10"


def test_somebody_must_record() -> None:
    with pytest.raises(UsageError, match="no stage of this workflow records videos"):
        recorded(pendulum(judged=False), 10)
