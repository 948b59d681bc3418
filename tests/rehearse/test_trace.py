"""What a trace says happened is what happened."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ebrl.graph.schedules import SCHEDULES
from ebrl.observe.chrome_trace import chrome_trace, tracks
from ebrl.planner.problem import Allocation, Problem
from ebrl.rehearse.rehearsal import Rehearsal
from ebrl.rehearse.trace import TRANSFERS, Span, Trace
from ebrl.rehearse.truth import TrueCosts
from ebrl.rehearse.usage import BUSY, CORES, GENERATION, SIMULATION, TRAINING

from ..planner.machines import chunks, on_devices, straight

NOISE = {"simulation_sigma": 0.2, "generation_sigma": 0.1, "episode": 20, "episode_spread": 0.3, "reset_s": 0.05}
WHOLE = Allocation(batch=32, generation={"GPU-0": 100, "GPU-1": 100}, training={"GPU-0": 100, "GPU-1": 100})
RENDERING = Allocation(batch=32, simulation={"GPU-0": 50}, generation={"GPU-0": 50}, training={"GPU-1": 100})


def rehearse(
    schedule: str, allocation: Allocation, problem: Problem | None = None, **costs: object
) -> tuple[Rehearsal, Trace]:
    """Three iterations, of which two are traced."""
    problem = problem or on_devices(2, cores=16)
    truth = TrueCosts.of(problem, **{**NOISE, **costs})
    rehearsal = Rehearsal(problem, allocation, truth, schedule=SCHEDULES[schedule])
    rehearsal.run(1)
    rehearsal.usage.clear()
    trace = Trace(rehearsal)
    rehearsal.run(2)
    return rehearsal, trace


@pytest.mark.parametrize("schedule", ["sync", "colocated"])
def test_its_busy_time_is_that_of_usage(schedule: str) -> None:
    """Where a rollout has ended when its training has, nothing is half done at the end."""
    rehearsal, trace = rehearse(schedule, WHOLE, swap_s=0.5, publish_s=0.2, episode=float("inf"))
    usage, passed_s = rehearsal.usage.shares(), trace.ended_s - trace.began_s
    for resource, places in ((CORES, 16), (GENERATION, 2), (TRAINING, 1)):
        assert trace.busy_s(resource) == pytest.approx(usage[resource][BUSY] * passed_s * places), resource


def test_so_it_is_on_devices_of_simulators() -> None:
    costs = chunks(0.1)
    costs.tables.update(straight("gpu", 0.01, 0.01).tables)
    problem = on_devices(2, cores=16, simulation=costs)
    rehearsal, trace = rehearse("sync", RENDERING, problem, episode=float("inf"))
    usage, passed_s = rehearsal.usage.shares(), trace.ended_s - trace.began_s
    assert trace.busy_s(SIMULATION) == pytest.approx(usage[SIMULATION][BUSY] * passed_s)
    assert {span.place for span in trace.spans if span.resource == SIMULATION} == {"GPU-0"}


@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
def test_one_place_does_one_thing_at_a_time(schedule: str) -> None:
    _, trace = rehearse(schedule, WHOLE, swap_s=0.5, publish_s=0.2)
    found = tracks(trace.spans)
    assert [place for resource, place in found if resource == CORES] == [str(core) for core in range(16)]
    assert [place for resource, place in found if resource == GENERATION] == ["GPU-0", "GPU-1"]
    for spans in found.values():
        assert all(before.ended_s <= after.began_s + 1e-9 for before, after in pairwise(spans))
        assert all(span.began_s <= span.ended_s <= trace.ended_s for span in spans)


def test_transfers_that_overlap_have_tracks_of_their_own() -> None:
    """Weights may take longer than an iteration."""
    first, second, third = (Span(TRANSFERS, TRANSFERS, "transfer", at_s, at_s + 1.5, 0) for at_s in (0.0, 1.0, 2.0))
    assert list(tracks([third, first, second]).values()) == [[first, third], [second]]


def test_as_chrome_events() -> None:
    _, trace = rehearse("async", WHOLE, publish_s=0.2)
    events = chrome_trace(trace, "async")["traceEvents"]
    work, names = [[event for event in events if event["ph"] == kind] for kind in "XM"]
    assert len(work) == len(trace.spans) and len(work) + len(names) == len(events)
    threads = {(event["pid"], event["tid"]): event["args"]["name"] for event in names if event["name"] == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in work} == set(threads)
    assert len(set(threads.values())) == len(threads) and "core 3" in threads.values()
    passed_us = 1e6 * (trace.ended_s - trace.began_s)
    assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in work)
    assert max(event["ts"] + event["dur"] for event in work) == pytest.approx(passed_us, abs=0.01)
    for thread in threads:
        times = sorted((each["ts"], each["ts"] + each["dur"]) for each in work if (each["pid"], each["tid"]) == thread)
        assert all(round(end - begin, 3) <= 0 for (_, end), (begin, _) in pairwise(times))
    batches = [event["args"]["requests"] for event in work if event["name"] == "batch"]
    assert batches and all(1 <= size <= 32 for size in batches)
