"""Imports point down: graph, planner, schedule and rehearse know neither Dask nor torch."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import importlib, pkgutil, sys
import ebrl
for name in ("ebrl.graph", "ebrl.planner", "ebrl.schedule", "ebrl.rehearse"):
    package = importlib.import_module(name)
    modules = [module.name for module in pkgutil.walk_packages(package.__path__, name + ".")]
    assert modules, name
    for module in modules:
        importlib.import_module(module)
heavy = {"dask", "distributed", "torch", "gymnasium", "mujoco"} & set(sys.modules)
runtime = {name for name in sys.modules if name.startswith("ebrl.runtime")}
print(sorted(heavy | runtime))
"""


def test_graph_planner_schedule_and_rehearse_import_neither_dask_nor_torch() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.stdout.strip() == "[]"


def test_the_package_alone_imports_next_to_nothing() -> None:
    code = "import sys, ebrl; print(sorted({'numpy', 'networkx', 'dask', 'torch', 'attrs'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
