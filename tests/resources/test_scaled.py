"""Machines with other numbers of GPUs."""

from __future__ import annotations

from collections import Counter

import pytest

from ebrl.errors import UsageError
from ebrl.resources.machine_spec import machine
from ebrl.resources.scaled import scaled


def test_cores_and_memory_of_each_gpu_stay() -> None:
    whole = machine("8xH100,56c,512GiB")
    assert scaled(whole, 8) is whole
    few, many = scaled(whole, 1), scaled(whole, 16)
    assert (len(few.gpus), len(few.cores), few.memory_mib) == (1, 7, 64 * 1024)
    assert (len(many.gpus), len(many.cores), many.memory_mib) == (16, 112, 1024 * 1024)
    assert len({gpu.uuid for gpu in many.gpus}) == 16 and {gpu.name for gpu in many.gpus} == {whole.gpus[0].name}


def test_there_is_always_a_core() -> None:
    assert len(scaled(machine("8xH100,2c"), 1).cores) == 1


def test_models_keep_their_proportion() -> None:
    mixed = machine("2xH100,4xL40S,48c")
    found = scaled(mixed, 3)
    assert sorted(Counter(gpu.name for gpu in found.gpus).values()) == [1, 2]
    assert len({gpu.uuid for gpu in found.gpus}) == 3
    with pytest.raises(UsageError, match="4 GPUs cannot be"):
        scaled(mixed, 4)


def test_what_has_no_gpus_cannot_be_scaled() -> None:
    with pytest.raises(UsageError, match="without GPUs"):
        scaled(machine("56c"), 2)
