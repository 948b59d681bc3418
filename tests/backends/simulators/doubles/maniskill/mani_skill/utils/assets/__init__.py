from __future__ import annotations

DATA_SOURCES = {"ycb": object()}
DATA_GROUPS: dict[str, list[str]] = {"PickYCB-v1": ["ycb"], "all_ycb": ["ycb"]}


def is_data_source_downloaded(name: str) -> bool:
    return name not in DATA_SOURCES


def expand_data_group_into_individual_data_source_ids(name: str) -> list[str]:
    return DATA_GROUPS[name]
