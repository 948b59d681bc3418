"""What a simulator does beside its episodes: drawing, closing, and to its process. Standard library and numpy only."""

from __future__ import annotations

import numpy as np

from ebrl.backends.conformance.subject import (
    SEED,
    SHORT,
    NotApplicable,
    Subject,
    Violation,
    actions,
    difference_of_episodes,
    play,
)
from ebrl.backends.conformance.surroundings import Surroundings
from ebrl.errors import EbrlError
from ebrl.runtime.contract import kind


def render(subject: Subject) -> None:
    """render() gives a uint8 frame of [height, width, 3], or None, and changes nothing."""
    simulator = subject.simulator
    draw = getattr(simulator, "render", None)
    if draw is None:
        raise NotApplicable("there is no render()")
    plan = actions(simulator.spec.action, 2)
    plain = play(simulator, SEED, plan)
    simulator.reset(SEED)
    try:
        frame = draw()
    except EbrlError as cause:
        raise NotApplicable(f"{cause.message}: {cause.detail or cause.hint}") from cause
    if frame is None:
        raise NotApplicable("render() draws nothing")
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
        got = f"{frame.dtype} {frame.shape}" if isinstance(frame, np.ndarray) else kind(frame)
        raise Violation(f"render() gave {got}; expected uint8 (height, width, 3), or None")
    if difference_of_episodes(plain, (plain[0], [simulator.step(action) for action in plan[: len(plain[1])]])):
        raise Violation("the episode goes another way when it is drawn")


def close_twice(subject: Subject) -> None:
    """close() may be called twice."""
    simulator = subject.another()
    simulator.reset(SEED)
    subject.close(simulator)
    simulator.close()


def _surroundings(subject: Subject) -> Surroundings:
    """After an episode; making the simulator was watched already."""
    with subject.surroundings.watched():
        play(subject.simulator, SEED, actions(subject.simulator.spec.action, SHORT))
    return subject.surroundings


def standard_output(subject: Subject) -> None:
    """Nothing is printed to standard output."""
    printed = _surroundings(subject).printed
    if printed:
        raise Violation(
            f"it prints to standard output: {printed.splitlines()[0][:100]!r}",
            "use logging or warnings, or redirect what a foreign package prints",
        )


def standard_input(subject: Subject) -> None:
    """Nothing is read from standard input: nobody sits there."""
    asked = _surroundings(subject).asked
    if asked is not None:
        raise Violation(
            f"it reads from standard input{f': {asked!r}' if asked else ''}", "take the answer as an option instead"
        )


def signal_handlers(subject: Subject) -> None:
    """Signal handlers stay as they are."""
    changed = _surroundings(subject).changed_signals()
    if changed:
        raise Violation(f"it changes the handler of {', '.join(changed)}", "put the handler back before returning")


def working_folder(subject: Subject) -> None:
    """The working folder stays as it is."""
    folder = _surroundings(subject).changed_folder()
    if folder is not None:
        raise Violation(f"it changes the working folder to {folder}", "use absolute paths")
