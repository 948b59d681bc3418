from __future__ import annotations

import io
import math
from typing import Any

from rich.console import Console

from ebrl.graph.plan import Plan
from ebrl.observe.events import Event
from ebrl.observe.progress import LiveProgress, PlainProgress, duration, print_summary, progress

PLAN = Plan(workflow="lift_ppo", schedule="sync", stages=(), loops=())
ROW = {
    "iteration": 12, "env_steps": 6144, "env_steps_per_s": 312.44, "success": 0.625, "episode_return": 12.1,
    "staleness_mean": 0.5, "staleness_max": 1, "queue_depth": 3, "idle/simulate": 0.03, "idle/train_ppo": 0.55,
}  # fmt: skip
SUMMARY = {
    "status": "finished", "reason": "evaluation reached 0.95", "success": 0.98, "episodes": 1040, "env_steps": 41984,
    "env_steps_per_s": 312.0, "wall_s": 134.4, "max_staleness_seen": 1, "checkpoint": "runs/x/checkpoints/80",
    "run_dir": "runs/x", "success_episodes": 50, "policy": "runs/x/policy.safetensors",
}  # fmt: skip


def console(*, terminal: bool, width: int = 100, height: int = 40) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=terminal, width=width, height=height, _environ={"TERM": "xterm"}), out


def feed(display: Any, *events: tuple[str, dict[str, Any]]) -> None:
    for kind, data in events:
        display(Event(kind=kind, time_s=0.0, data=data))


STARTED = ("started", {"plan": PLAN, "dashboard_link": "http://h:1/status", "run_dir": "runs/x", "workers": {}})
LOST = (
    "environment_lost",
    {
        "stage": "simulate", "environment": 3, "episode": 12, "step": 7, "seed": 9,
        "message": "killed by SIGKILL\ntraceback", "hint": "see dmesg",
    },
)  # fmt: skip


def test_plain_lines() -> None:
    target, out = console(terminal=False, width=20)
    display = progress(target)
    assert isinstance(display, PlainProgress)
    feed(
        display,
        STARTED,
        ("iteration", ROW),
        ("report", {"stage": "evaluate", "iteration": 12, "metrics": {"success": 1.0, "length": 8.25}}),
    )
    feed(display, LOST, ("waiting", {"tasks": "train-3"}), ("stopping", {"reason": "Ctrl-C"}), ("unknown", {}))
    assert out.getvalue().splitlines() == [
        "lift_ppo, schedule sync",
        "  run directory  runs/x",
        "  dashboard      http://h:1/status",
        "iteration 12  env steps 6,144  steps/s 312.4  success 62 %  return 12.10  staleness 0.50/1  queue 3  "
        "idle: simulate 3 %, train_ppo 55 %",
        "evaluate at iteration 12: success 100 %, length 8.25",
        "warning: simulate lost environment 3 in episode 12 at step 7 (seed 9): killed by SIGKILL; see dmesg",
        "waiting for train-3",
        "stopping: Ctrl-C",
    ]


def test_missing_and_undefined_numbers_are_dashes() -> None:
    target, out = console(terminal=False)
    feed(PlainProgress(target), ("iteration", {"iteration": 1, "success": math.nan}))
    assert "success -  return -  staleness -/-" in out.getvalue()


def test_infinite_numbers_do_not_break_the_display() -> None:
    target, out = console(terminal=False)
    row = dict.fromkeys(ROW, math.inf) | {"iteration": 1}
    feed(PlainProgress(target), ("iteration", row), ("finished", dict.fromkeys(SUMMARY, -math.inf)))
    assert "iteration 1  env steps -  steps/s inf" in out.getvalue()


def test_live_display_shows_everything() -> None:
    target, out = console(terminal=True)
    display = progress(target)
    assert isinstance(display, LiveProgress)
    with display:
        assert "starting the workers" in out.getvalue()
        show(display, out)


def show(display: LiveProgress, out: io.StringIO) -> None:
    feed(display, STARTED)
    assert "waiting for the first iteration" in out.getvalue()
    out.truncate(0)
    feed(display, ("iteration", ROW), ("report", {"stage": "evaluate", "iteration": 10, "metrics": {"success": 1.0}}))
    feed(display, LOST, ("worker_replaced", {"worker": "simulate-0", "cause": "SIGKILL"}))
    shown = out.getvalue()
    for text in (
        "lift_ppo", "http://h:1/status", "runs/x", "6,144", "312.4", "62 %", "0.50/1", "simulate 3 %",
        "evaluate at iteration 10: success 100 %", "2 warning(s)", "lost environment 3", "simulate-0 was replaced",
    ):  # fmt: skip
        assert text in shown, text
    feed(display, ("finished", SUMMARY))
    assert "lift_ppo: finished" in out.getvalue()


def test_live_display_fits_a_low_terminal() -> None:
    target, out = console(terminal=True, width=80, height=16)
    with LiveProgress(target) as display:
        feed(display, STARTED, *[("iteration", {**ROW, "iteration": n}) for n in range(30)])
        out.seek(0)
        out.truncate()
        feed(display, ("iteration", {**ROW, "iteration": 99}))
        assert " 99 " in out.getvalue(), "the newest iteration is always shown"
        assert len(out.getvalue().splitlines()) <= 16


def test_warnings_of_stages() -> None:
    target, out = console(terminal=False)
    feed(PlainProgress(target), ("warning", {"stage": "evaluate", "message": "no video of episode 0: no light"}))
    assert out.getvalue() == "warning: evaluate: no video of episode 0: no light\n"


def test_markup_in_messages_is_text() -> None:
    target, out = console(terminal=False)
    feed(PlainProgress(target), ("stopping", {"reason": "[/red] [bold]"}))
    assert out.getvalue() == "stopping: [/red] [bold]\n"


def test_summary() -> None:
    target, out = console(terminal=False)
    print_summary(target, "lift_ppo", SUMMARY)
    assert out.getvalue().splitlines() == [
        "lift_ppo: finished (evaluation reached 0.95)",
        "  success     98 % of 50 evaluation episodes",
        "  env steps   41,984, 312.0 per second",
        "  episodes    1,040",
        "  wall time   2 min 14 s",
        "  staleness   at most 1",
        "  checkpoint  runs/x/checkpoints/80",
        "  policy      runs/x/policy.safetensors",
        "  run         runs/x",
    ]


def test_success_without_an_evaluation_is_that_of_training() -> None:
    target, out = console(terminal=False)
    print_summary(target, "lift_ppo", {"success": 0.5})
    assert "success     50 % of the last training episodes" in out.getvalue()


def test_summary_of_a_failed_run_says_how_to_go_on() -> None:
    target, out = console(terminal=False)
    print_summary(target, "lift_ppo", {**SUMMARY, "status": "failed", "reason": ""})
    assert out.getvalue().splitlines()[-1] == "  continue it with: ebrl run --resume runs/x"


def test_duration() -> None:
    assert [duration(s) for s in (4.21, 134.4, 3780, None)] == ["4.2 s", "2 min 14 s", "1 h 03 min", "-"]
