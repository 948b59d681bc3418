def get_task_horizon(task: str) -> int:
    if task != "OpenDrawer":
        raise ValueError
    return 6
