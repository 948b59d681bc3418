from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import ebrl.backends.simulators
from ebrl.errors import UsageError
from ebrl.interpreters.choose import interpreter_of
from ebrl.interpreters.pins import Pins, Section

SHIPPED = sorted(Path(ebrl.backends.simulators.__path__[0]).glob("*.txt"))

TEXT = """
# python: 3.10, 3.11
# check: Lift?horizon=5
# Anything else is a comment.
numpy==2.2.6

mujoco==3.9.0
# options: --no-deps --prefer-binary
robosuite==1.5.2
# options:
tqdm==4.70.1
"""


def test_a_file_is_read_into_calls_of_pip() -> None:
    pins = Pins.parse(TEXT)
    assert pins.pythons == ("3.10", "3.11")
    assert pins.check == "Lift?horizon=5"
    assert pins.sections == (
        Section(requirements=("numpy==2.2.6", "mujoco==3.9.0")),
        Section(options=("--no-deps", "--prefer-binary"), requirements=("robosuite==1.5.2",)),
        Section(requirements=("tqdm==4.70.1",)),
    )


def test_without_a_header_this_python_is_meant() -> None:
    assert Pins.parse("numpy==2.2.6").pythons == (f"3.{sys.version_info[1]}",)


def test_the_digest_changes_with_what_is_installed_and_with_nothing_else() -> None:
    digest = Pins.parse(TEXT).digest
    assert Pins.parse(TEXT.replace("Anything", "Something").replace("horizon=5", "horizon=6")).digest == digest
    for changed in (("3.10", "3.12"), ("3.9.0", "3.9.1"), (" --no-deps", "")):
        assert Pins.parse(TEXT.replace(*changed)).digest != digest


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_shipped_pins_are_exact_and_name_no_host(file: Path) -> None:
    pins = Pins.parse(file.read_text())
    requirements = [line for section in pins.sections for line in section.requirements]
    assert requirements and all(re.match(r"[\w.\[\]-]+==[\w.]+", line) for line in requirements)
    assert "://" not in file.read_text()
    assert pins.check
    assert file.with_suffix(".py").is_file()


def test_pins_lie_beside_the_adapter(backend: Callable[..., Path]) -> None:
    shipped = Pins.of("robosuite")
    assert shipped is not None and shipped.check == "Lift"
    backend("mine", TEXT)
    assert Pins.of("mine") == Pins.parse(TEXT)
    backend("bare", None)
    assert Pins.of("bare") is None
    with pytest.raises(UsageError, match="no simulator backend is named 'robosuit'"):
        Pins.of("robosuit")


def test_the_adapter_is_not_imported(backend: Callable[..., Path]) -> None:
    """It may need packages that only its own interpreter has."""
    backend("mine", TEXT).with_suffix(".py").write_text("import no_such_simulator")
    assert Pins.of("mine") == Pins.parse(TEXT)
    assert interpreter_of("mine").python is None


def test_without_an_environment_the_way_out_is_to_create_it(backend: Callable[..., Path]) -> None:
    backend("mine", TEXT)
    assert interpreter_of("mine").remedy == "ebrl env create mine"
    backend("bare", None)
    assert interpreter_of("bare").remedy == ""
