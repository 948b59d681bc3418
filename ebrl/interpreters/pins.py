"""The pins of a backend: a text file beside its adapter, ``libero.py`` and ``libero.txt``.

Lines are requirements as pip reads them. Comments of the form ``# key: value`` say more:

| key | meaning |
|---|---|
| ``python`` | minor versions that fit, ``3.11, 3.12``: that of this interpreter is tried first, then in order |
| ``check`` | the target that `ebrl env check` tries when none is named |
| ``options`` | options of pip for the lines below, up to the next such line: ``--no-deps`` |
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
from pathlib import Path

import attrs

from ebrl.backends.registry import simulator_origin

_KEY = re.compile(r"#\s*(python|check|options):(.*)")


@attrs.define(frozen=True, kw_only=True)
class Section:
    """What one call of pip installs."""

    options: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()


@attrs.define(frozen=True, kw_only=True)
class Pins:
    pythons: tuple[str, ...]
    """Minor versions, such as ``3.11``, in the order in which they are looked for."""
    sections: tuple[Section, ...]
    check: str = ""

    @staticmethod
    def parse(text: str) -> Pins:
        header: dict[str, str] = {}
        sections: list[Section] = []
        options: tuple[str, ...] = ()
        for line in map(str.strip, text.splitlines()):
            if (found := _KEY.fullmatch(line)) is not None:
                key, value = found[1], found[2].strip()
                if key == "options":
                    options = tuple(value.split())
                    sections.append(Section(options=options))
                else:
                    header[key] = value
            elif line and not line.startswith("#"):
                if not sections:
                    sections.append(Section())
                sections[-1] = attrs.evolve(sections[-1], requirements=(*sections[-1].requirements, line))
        return Pins(
            pythons=tuple(re.findall(r"\d+\.\d+", header.get("python", ""))) or (f"3.{sys.version_info[1]}",),
            sections=tuple(section for section in sections if section.requirements),
            check=header.get("check", ""),
        )

    @staticmethod
    def of(backend: str) -> Pins | None:
        """The pins that ship with `backend`; None where none do. UsageError where no backend has this name."""
        file = pins_file(simulator_origin(backend)[0])
        return None if file is None else Pins.parse(file.read_text())

    @property
    def digest(self) -> str:
        """Changes with everything that changes what is installed."""
        return hashlib.blake2b(repr((self.pythons, self.sections)).encode(), digest_size=8).hexdigest()


def pins_file(module: str) -> Path | None:
    """The file beside `module`, which is not imported; only the packages that it lies in are."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin).with_suffix(".txt")
    return file if file.is_file() else None
