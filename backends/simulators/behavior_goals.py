"""What a BEHAVIOR activity asks for, as its authors wrote it down in BDDL. Standard library and bddl only."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path

from ebrl.errors import SimulatorNotFound, UsageError, did_you_mean


@dataclass(frozen=True)
class Goals:
    """One definition of an activity. Needs neither a GPU nor Isaac Sim."""

    activity: str
    definition: int
    instruction: str
    """The activity in words: ``putting away Halloween decorations``."""
    conditions: tuple[str, ...]
    """What must be true in the end, one sentence each: ``for every pumpkin, for at least one cabinet, ...``."""
    scenes: tuple[str, ...]
    """Houses that the authors chose for it; empty where they chose none."""


def read_goals(activity: str, definition: int = 0) -> Goals:
    """Raises SimulatorNotFound where bddl is missing or has no such activity, UsageError for a definition that
    the activity does not have."""
    try:
        import bddl
        from bddl.activity import Conditions, get_all_activities, get_instance_count, get_natural_goal_conditions
    except ImportError as cause:
        raise SimulatorNotFound(
            "bddl cannot be imported in this interpreter",
            detail=f"{type(cause).__name__}: {cause}",
            hint="ebrl env create behavior",
        ) from cause
    known = get_all_activities()
    if activity not in known:
        raise SimulatorNotFound(f"no BEHAVIOR activity {activity!r}", hint=did_you_mean(activity, known))
    count = get_instance_count(activity)
    if not 0 <= definition < count:
        raise UsageError(f"BEHAVIOR's {activity} has no definition {definition}", hint=f"0 to {count - 1} exist")
    with contextlib.redirect_stdout(io.StringIO()):  # the parser prints about what it skips
        sentences = get_natural_goal_conditions(Conditions(activity, definition, "omnigibson"))
    return Goals(
        activity=activity,
        definition=definition,
        instruction=activity.replace("_", " "),
        conditions=tuple(" ".join(sentence.split()) for sentence in sentences),
        scenes=_scenes(Path(bddl.__file__).parent, activity),
    )


def _scenes(folder: Path, activity: str) -> tuple[str, ...]:
    try:
        chosen = json.loads((folder / "activity_to_preselected_scenes.json").read_text())
    except OSError:
        return ()
    return tuple(chosen.get(activity, ()))
