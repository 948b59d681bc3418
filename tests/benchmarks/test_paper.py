"""The calibrated profiles of the paper's configurations, and the problems made of them."""

from __future__ import annotations

import math
from random import Random

import attrs
import pytest
from calibration import FOLDER, chunk_sigma, figures, launch_s, texts
from configurations import CONFIGURATIONS
from policies import DREAMZERO, GR00T
from problems import case, known, known_models
from published import ABLATIONS, PINNING, SPEEDUPS
from testbeds import ACCELERATORS

from ebrl.graph.schedules import MECHANISMS, SCHEDULES
from ebrl.planner.allocate import allocate
from ebrl.planner.costs import CPU
from ebrl.planner.explain import profiled_problem
from ebrl.planner.first_plan import first_plan
from ebrl.planner.problem import SIMULATION
from ebrl.planner.roofline import roofline
from ebrl.rehearse.rehearsal import Rehearsal, throughput
from ebrl.resources.machine_spec import KNOWN, machine
from ebrl.workflows.robocasa_ppo import robocasa_ppo

NAMES = sorted(CONFIGURATIONS)
ALGORITHMS = ("ppo", "grpo")


def test_the_committed_files_are_what_the_calibration_makes() -> None:
    made = dict(texts())
    assert {path.name for path in FOLDER.iterdir()} == set(made)
    for name, text in made.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, "python benchmarks/paper/calibration.py"


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_says_what_it_is(name: str) -> None:
    profile, rows = known(name), dict(figures(name))
    assert len(rows) == len(list(figures(name)))
    assert set(profile.provenance) == set(rows)
    for figure in rows.values():
        assert (
            figure.kind in ("published", "derived", "assumed") and len(figure.source) > 5 and "|" not in figure.source
        )


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_has_all_that_a_rehearsal_needs(name: str) -> None:
    profile = known(name)
    assert not profile.missing
    assert profile.episode is not None and 0 < profile.episode <= profile.window
    assert profile.iteration % profile.window == 0
    assert min(profile.reset_s, profile.swap_s, profile.publish_s) > 0
    for stage in profile.stages:
        assert 0 < profile.sigma(stage) < 0.2
    assert set(known_models()) == {KNOWN[model].name for model in ACCELERATORS}


def test_latencies_of_one_observation_are_the_published_ones() -> None:
    table = known("libero_gr00t").costs("generation").tables[str(KNOWN["H100"].name)]
    assert table.seconds(100, 1) == pytest.approx(0.157, rel=1e-4)
    table = known("maniskill_openvla_oft").costs("generation").tables[str(KNOWN["A100"].name)]
    assert table.seconds(100, 1) == pytest.approx(0.112, rel=1e-4)
    assert launch_s(GR00T) > 0 and launch_s(DREAMZERO) == pytest.approx(16 * 40 * 0.00077, rel=0.02)


def test_larger_batches_and_shares_pay_less_and_less() -> None:
    for name in NAMES:
        for table in known(name).costs("generation").tables.values():
            rates = [table.rate(percent, 8) / percent for percent in (10, 50, 100)]
            assert rates == sorted(rates, reverse=True)
            assert table.rate(100, 1) < table.rate(100, 8) < table.rate(100, 64)


def test_the_spread_of_a_chunk_is_that_of_its_steps() -> None:
    random, sigma = Random(0), chunk_sigma(1.5, 1)
    assert math.exp(2.326 * sigma - sigma**2 / 2) == pytest.approx(1.5)
    chunks = [sum(random.lognormvariate(0.0, sigma) for _ in range(10)) for _ in range(4000)]
    mean = sum(chunks) / len(chunks)
    spread = math.sqrt(sum((chunk / mean - 1) ** 2 for chunk in chunks) / len(chunks))
    assert chunk_sigma(1.5, 10) == pytest.approx(spread, rel=0.05)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", NAMES)
def test_every_case_can_be_planned_below_its_roofline(name: str, algorithm: str) -> None:
    found = case(name, algorithm)
    answer = allocate(found.problem)
    assert 0 < answer.prediction.rate <= roofline(found.problem).rate
    assert found.problem.iteration % found.problem.window == 0


@pytest.mark.parametrize("model", sorted(ACCELERATORS))
@pytest.mark.parametrize("gpus", [1, 2, 4, 8, 16])
def test_machines_grow_with_their_devices(gpus: int, model: str) -> None:
    problem = case("libero_gr00t", gpus=gpus, model=model).problem
    assert len(problem.devices) == gpus and problem.environments == 8 * gpus
    assert len(problem.cores) == 8 * gpus and len(problem.core_quotas[SIMULATION]) == 7 * gpus
    assert len(problem.nodes) == max(1, gpus // 8)
    assert problem.iteration == problem.environments * problem.window * 8


def test_simulators_that_trace_rays_have_nodes_of_their_own() -> None:
    problem = case("behavior_openpi", gpus=16, model="H20").problem
    assert [node.name for node in problem.nodes] == ["node-0", "node-1", "rendering-0", "rendering-1"]
    assert {node for node, _ in problem.core_quotas[SIMULATION]} == {"rendering-0", "rendering-1"}
    answer = allocate(problem)
    tracing = {device.uuid for device in problem.devices if device.rt_cores}
    assert set(answer.allocation.simulation) <= tracing
    assert not tracing & {*answer.allocation.generation, *answer.allocation.training}


def test_what_is_not_known() -> None:
    for wrong in (("cartpole", "ppo", "H100"), ("libero_gr00t", "sac", "H100"), ("libero_gr00t", "ppo", "L40S")):
        with pytest.raises(KeyError):
            case(wrong[0], wrong[1], model=wrong[2])


@pytest.mark.parametrize("name", NAMES)
def test_a_rehearsal_of_a_case_stays_below_the_roofline(name: str) -> None:
    found = case(name, "grpo", gpus=2, horizons=1)
    rehearsal = Rehearsal(found.problem, allocate(found.problem).allocation, found.truth)
    rehearsal.run(2)
    rate, most = throughput(rehearsal.run(6)), roofline(found.problem).rate
    assert 0.5 * most < rate <= 1.01 * most


def test_the_costs_told_hold_the_resets() -> None:
    found = case("libero_gr00t")
    assert found.truth.simulation.tables[CPU].seconds(1, 1) == pytest.approx(0.4, rel=1e-4)
    told = found.problem.simulation.tables[CPU].seconds(1, 1)
    assert told == pytest.approx(0.4 + 0.7 / 48, rel=1e-4)
    assert attrs.evolve(found.truth, reset_s=0.0).told(found.problem).simulation.tables[CPU].seconds(1, 1) < told


def test_reported_results_are_of_things_that_exist() -> None:
    assert set(ABLATIONS.values) <= set(MECHANISMS)
    for (name, algorithm), reported in SPEEDUPS.items():
        assert name in CONFIGURATIONS and algorithm in ALGORITHMS and set(reported.values) <= set(SCHEDULES)
    assert all(any(key in name for name in CONFIGURATIONS) for key in PINNING.values)


def test_ebrl_rehearse_asks_the_same_of_a_workflow_with_these_costs() -> None:
    """But for the cores that drive devices, which simulate nothing here: a workflow says so with ``cpus=``."""
    found = case("robocasa_openpi")
    graph, pool = robocasa_ppo(num_envs=64), machine("8xH100,64c")
    told = found.truth.told(profiled_problem(graph, first_plan(graph, pool), pool, found.profile))
    for name in ("simulation", "generation", "training", "environments", "iteration", "window", "reset_s", "barriers"):
        assert getattr(told, name) == getattr(found.problem, name), name
    assert len(told.cores) == len(found.problem.cores)
    devices = [[(each.model, each.memory_mib) for each in problem.devices] for problem in (told, found.problem)]
    assert devices[0] == devices[1]
    quota = frozenset(sorted(told.cores)[:56])
    limited = attrs.evolve(told, core_quotas={SIMULATION: quota})
    assert allocate(limited).prediction.rate == pytest.approx(allocate(found.problem).prediction.rate)
