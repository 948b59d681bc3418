"""Load a workflow from ``FILE[:NAME]``.

The file is imported under its own module name with its folder last on ``sys.path``: modules beside it are
found from any folder, and what workers unpickle by reference has a name that they can import too.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType

from ebrl.errors import EbrlError, UsageError, did_you_mean
from ebrl.graph.search_path import found_elsewhere, search_last
from ebrl.graph.source import place, user_frames, user_traceback
from ebrl.graph.workflow import Workflow

loading: ContextVar[bool] = ContextVar("ebrl_loading", default=False)
"""True while a workflow file is imported; a run must not start then."""

_loaded: dict[str, Path] = {}
"""File by module name, for modules that came in through `load_workflow`."""


def load_workflow(reference: str) -> Workflow:
    """The workflow that ``FILE`` or ``FILE:NAME`` names; UsageError says what is wrong with file or name."""
    file, name = _split(reference)
    module = _import(file)
    found = {key: value for key, value in vars(module).items() if isinstance(value, Workflow)}
    if name is not None:
        if name not in found:
            raise UsageError(f"{file.name} has no workflow {name!r}", hint=did_you_mean(name, found))
        return found[name]
    own = {value.__name__: value for value in found.values() if value.__module__ == module.__name__}
    choice = own or found
    if not choice:
        raise UsageError(f"{file.name} has no workflow", hint="decorate a function of it with @ebrl.workflow")
    if len(choice) > 1:
        names = ", ".join(sorted(choice))
        raise UsageError(
            f"{file.name} has {len(choice)} workflows: {names}", hint=f"name one: {reference}:{sorted(choice)[0]}"
        )
    return next(iter(choice.values()))


def _split(reference: str) -> tuple[Path, str | None]:
    path, colon, name = reference.rpartition(":")
    if not (colon and name.isidentifier() and path):
        path, name = reference, ""
    file = Path(path).expanduser()
    if file.is_dir():
        raise UsageError(f"{path} is a folder", hint="name the workflow file in it")
    if not file.is_file():
        folder = file.parent
        beside = [other.name for other in folder.glob("*.py")] if folder.is_dir() else []
        close = difflib.get_close_matches(file.name, beside, n=1)
        hint = f"did you mean {str(folder / close[0])!r}?" if close else ""
        raise UsageError(f"there is no file {path}", hint=hint)
    if file.suffix != ".py":
        raise UsageError(f"{path} is no Python file", hint="a workflow file ends in .py")
    return file.resolve(), name or None


def _import(file: Path) -> ModuleType:
    module_name, folder = file.stem, str(file.parent)
    _check_name(file)
    search_last(folder)
    importlib.invalidate_caches()
    token = loading.set(True)
    try:
        module = importlib.import_module(module_name)
    except EbrlError:
        raise
    except SystemExit as error:
        raise UsageError(
            f"{file.name} called sys.exit({_exit_argument(error)}) while it was imported",
            place=_place(error, file),
            hint='put what should only run as a script under `if __name__ == "__main__":`',
        ) from None
    except Exception as error:
        raise UsageError(
            f"{file.name} raised {type(error).__name__} while it was imported: {_first_line(error)}",
            place=_place(error, file),
            detail=user_traceback(error),
        ) from error
    finally:
        loading.reset(token)
    _loaded[module_name] = file
    return module


def _check_name(file: Path) -> None:
    """Refuse a file that would hide another module; forget a file of the same name that was loaded before."""
    name = file.stem
    if "." in name or name in sys.stdlib_module_names or name == "ebrl":
        raise UsageError(f"{file.name} cannot be imported as module {name!r}", hint="rename the file")
    if (hidden := found_elsewhere(name, str(file.parent))) is not None:
        raise UsageError(f"{file.name} would hide the module {name!r} of {hidden}", hint="rename the file")
    other = sys.modules.get(name)
    if other is None or Path(getattr(other, "__file__", None) or os.devnull).resolve() == file:
        return
    if name not in _loaded:
        raise UsageError(
            f"{file.name} would hide the module {name!r} of {getattr(other, '__file__', 'Python')}",
            hint="rename the file",
        )
    del sys.modules[name]


def _place(error: BaseException, file: Path) -> str:
    """The innermost line of the user's own files; for a syntax error the line it names."""
    if isinstance(error, SyntaxError) and error.filename:
        return place(error.filename, error.lineno)
    below = [frame for frame in user_frames(error) if Path(frame.filename).parent == file.parent]
    return place(below[-1].filename, below[-1].lineno) if below else place(str(file), 1)


def _exit_argument(error: SystemExit) -> str:
    return "" if error.code is None else repr(error.code)


def _first_line(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return error.msg
    return (str(error).splitlines() or [""])[0]
