from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from ebrl.backends import registry
from ebrl.errors import UsageError


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    before = {group: dict(found) for group, found in registry._registered.items()}
    yield
    for group, found in registry._registered.items():
        found.clear()
        found.update(before[group])


def test_first_party_backends_come_from_entry_points() -> None:
    assert {"gymnasium", "robosuite"} <= set(registry.simulator_names())
    assert "mlp" in registry.policy_names()
    assert registry.load_policy("mlp").__name__ == "MlpPolicy"
    assert registry.load_simulator("gymnasium").__name__ == "GymnasiumSimulator"


def test_a_decorator_adds_a_backend_and_wins_over_an_entry_point() -> None:
    @registry.register_simulator("mlp")
    @registry.register_simulator("gymnasium")
    def mine(target: str) -> None: ...

    assert registry.load_simulator("gymnasium") is mine
    assert "mlp" in registry.simulator_names()
    assert registry.load_policy("mlp") is not mine


def test_two_definitions_of_one_name_are_refused_and_the_same_one_again_is_not() -> None:
    def other(target: str) -> None: ...

    def again() -> None:
        @registry.register_policy("mine")
        def mine(target: str) -> None: ...

    again()
    again()
    with pytest.raises(UsageError, match=r"two policy backends are named 'mine': .*again.*mine and .*other"):
        registry.register_policy("mine")(other)


def test_accelerators_are_backends_like_the_others() -> None:
    class Mine: ...

    assert registry.register_accelerator("mine")(Mine) is Mine
    assert {"cpu", "mine", "mps"} <= set(registry.accelerator_names())
    assert registry.load_accelerator("mine") is Mine
    assert registry.load_accelerator("mig").__name__ == "Mig"
    with pytest.raises(UsageError) as caught:
        registry.load_accelerator("green_contexts")
    assert caught.value.message == "no accelerator backend is named 'green_contexts'"
    assert caught.value.hint == "did you mean 'green_context'?"


@pytest.mark.parametrize(
    ("name", "hint"), [("gymnasum", "did you mean 'gymnasium'?"), ("zzz", "known: behavior, emulated, ")]
)
def test_an_unknown_name_gets_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        registry.load_simulator(name)
    assert caught.value.message == f"no simulator backend is named {name!r}"
    assert caught.value.hint.startswith(hint)
    assert caught.value.exit_code == 2


def test_the_origin_of_a_backend_is_known_without_importing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its module may need packages that only another interpreter has."""
    point = registry.EntryPoint("elsewhere", "no_such_module.sims:Outer.Inner", registry.SIMULATORS)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    assert registry.simulator_origin("elsewhere") == ("no_such_module.sims", "Outer.Inner")

    @registry.register_simulator("elsewhere")
    def mine(target: str) -> None: ...

    assert registry.simulator_origin("elsewhere") == (__name__, mine.__qualname__)
    with pytest.raises(UsageError, match="no simulator backend is named 'elsewher'"):
        registry.simulator_origin("elsewher")


def test_a_backend_that_cannot_be_imported_names_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    point = registry.EntryPoint("broken", "no_such_module:Simulator", registry.SIMULATORS)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    with pytest.raises(UsageError) as caught:
        registry.load_simulator("broken")
    assert caught.value.message == "the simulator backend 'broken' (no_such_module:Simulator) cannot be imported"
    assert "ModuleNotFoundError: No module named 'no_such_module'" in caught.value.detail


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("robosuite:Lift", ("robosuite", "Lift", {})),
        ("robosuite:Lift?horizon=40", ("robosuite", "Lift", {"horizon": 40})),
        ("libero:libero_object/3?hard=True&goal=none", ("libero", "libero_object/3", {"hard": True, "goal": None})),
        ("gymnasium:my_package:Mine-v0", ("gymnasium", "my_package:Mine-v0", {})),
        ("a:b?x=1.5&y=(1, 2)&z=OSC_POSE&w=", ("a", "b", {"x": 1.5, "y": (1, 2), "z": "OSC_POSE", "w": ""})),
    ],
)  # fmt: skip
def test_addresses(uri: str, expected: object) -> None:
    assert registry.parse_uri(uri) == expected


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("Lift", "'Lift' is not a simulator address"),
        (":Lift", "':Lift' is not a simulator address"),
        ("robosuite:", "'robosuite:' is not a simulator address"),
        ("a:b?horizon", "the options of 'a:b?horizon' cannot be read"),
        ("a:b?h=1&h=2", "option 'h' stands twice in 'a:b?h=1&h=2'"),
    ],
)
def test_addresses_that_are_none(uri: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        registry.parse_uri(uri)
    assert caught.value.message == message


def test_acting_and_the_adapters_import_nothing_heavy() -> None:
    program = """
import sys
import ebrl.backends.registry as registry
registry.load_simulator("gymnasium"), registry.load_simulator("robosuite")
light = {"attr", "networkx", "dask", "torch", "gymnasium", "robosuite", "mujoco"} & set(sys.modules)
registry.load_policy("mlp")
print(light, {"dask", "torch"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "set() set()"
