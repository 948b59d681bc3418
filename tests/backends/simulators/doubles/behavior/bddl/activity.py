from __future__ import annotations


def get_all_activities() -> list[str]:
    return ["defrosting_freezer", "turning_on_radio"]


def get_instance_count(activity: str) -> int:
    return 1


class Conditions:
    def __init__(self, activity: str, definition: int, simulator: str) -> None:
        print("\\ is not recognized in problem")
        assert simulator == "omnigibson"
        self.activity = activity


def get_natural_goal_conditions(conditions: Conditions) -> list[str]:
    return ["for every fridge,\n    the following is NOT true:\n        the fridge is frozen", "the fish is cold"]
