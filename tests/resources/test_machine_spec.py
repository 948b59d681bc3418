from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebrl.errors import UsageError
from ebrl.resources.machine_spec import KNOWN, WAY, machine


def test_cores_gpus_and_memory() -> None:
    pool = machine("8xH100, 56c ,512GiB")
    assert pool.cores == tuple(range(56))
    assert pool.memory_mib == 512 * 1024
    assert [gpu.uuid for gpu in pool.gpus] == [f"GPU-{number}" for number in range(8)]
    assert {(gpu.name, gpu.sm_count) for gpu in pool.gpus} == {("NVIDIA H100 80GB HBM3", 132)}


@pytest.mark.parametrize("spec", ["64", "64c", "64C"])
def test_cores_alone(spec: str) -> None:
    pool = machine(spec)
    assert (len(pool.cores), pool.gpus, pool.memory_mib, pool.cpu_quota) == (64, (), None, None)


def test_gpus_of_several_models_have_names_of_their_own() -> None:
    pool = machine("2xa100,32c,1xrtx4090")
    assert [(gpu.uuid, gpu.index, gpu.sm_count) for gpu in pool.gpus] == [
        ("GPU-0", 0, 108),
        ("GPU-1", 1, 108),
        ("GPU-2", 2, 128),
    ]


@pytest.mark.parametrize("name", KNOWN)
def test_every_known_gpu(name: str) -> None:
    (gpu,) = machine(f"1x{name},1c").gpus
    assert gpu.sm_count and gpu.memory_mib and gpu.name and name[-3:] in gpu.name.replace(" ", "")


@pytest.mark.parametrize(
    ("spec", "why", "hint"),
    [
        ("", "'' is neither cores nor GPUs nor memory", WAY),
        ("many", "'many' is neither cores nor GPUs nor memory", WAY),
        ("8xH100", "it names no cores", WAY),
        ("0c", "'0c' is neither cores nor GPUs nor memory", WAY),
        ("-4c", "'-4c' is neither cores nor GPUs nor memory", WAY),
        ("4c,", "'' is neither cores nor GPUs nor memory", WAY),
        ("4c,8c", "'8c' names cores a second time", WAY),
        ("4c,1GiB,2GiB", "'2GiB' names memory a second time", WAY),
        ("4c,512GB", "'512GB' is neither cores nor GPUs nor memory", WAY),
        ("99999999999c", "'99999999999c' is neither cores nor GPUs nor memory", WAY),
        ("4c,0xH100", "'0xH100' names no GPU", WAY),
        ("4c,2xH1000", "'2xH1000' names no known GPU", "did you mean 'H100'"),
        ("4c,2xTPU", "'2xTPU' names no known GPU", "known: A100, H100, H20, H200, L40S, RTX4090"),
        ("2*4c", "'2*4c' is several machines, and a plan is shown for one", "name the one that trains"),
        ("2*8xH100,56c", "'2*8xH100' is several machines, and a plan is shown for one", "name the one that trains"),
    ],
)
def test_the_wrong_part_is_named(spec: str, why: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        machine(spec)
    assert caught.value.message == f"--machine {spec}: {why}"
    assert caught.value.hint.startswith(hint)


@given(st.text(alphabet="0123456789cxGiBH,* ²", max_size=12))
def test_any_text_is_a_machine_or_an_error(spec: str) -> None:
    try:
        assert machine(spec).cores
    except UsageError as error:
        assert spec in error.message
