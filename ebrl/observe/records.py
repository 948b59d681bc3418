"""JSON as a run writes it: strict JSON, complete lines, and files that appear whole or not at all."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs


def plain(value: Any) -> Any:
    """`value` in JSON types. Numbers that JSON lacks (NaN, infinity) become None, unknown objects their repr."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if attrs.has(type(value)):
        return {field.name: plain(getattr(value, field.name)) for field in attrs.fields(type(value))}
    if hasattr(value, "tolist"):  # numpy scalars and arrays, torch tensors
        return plain(value.tolist())
    return repr(value)


class LineFile:
    """An append-only file of JSON lines. Every line is flushed as a whole; a kill can cut the last one only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open(path, "ab")  # noqa: SIM115 - open for the whole run

    def write(self, row: Mapping[str, Any]) -> None:
        line = json.dumps(plain(row), allow_nan=False, ensure_ascii=False)
        self._file.write(line.encode(errors="backslashreplace") + b"\n")
        self._file.flush()

    def named(self) -> bool:
        """Whether the file is still where it was opened."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._file.fileno()))
        except OSError:
            return False

    def close(self) -> None:
        self._file.close()


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a line file; a last line that was cut by a kill is left out."""
    with open(path, "rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)


def keep_lines(path: Path, keep: Callable[[dict[str, Any]], bool]) -> None:
    """Rewrite a line file without the rows that `keep` refuses and without a cut last line."""
    if path.exists():
        rows = [json.dumps(row, ensure_ascii=False) + "\n" for row in read_lines(path) if keep(row)]
        _replace(path, "".join(rows))


def write_json(path: Path, value: Any) -> None:
    """Write `value` so that `path` holds either its old content or all of the new one, whatever happens."""
    _replace(path, json.dumps(plain(value), allow_nan=False, ensure_ascii=False, indent=2) + "\n")


def write_whole(path: Path, content: bytes) -> None:
    """Likewise for any other content."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _replace(path: Path, text: str) -> None:
    write_whole(path, text.encode(errors="backslashreplace"))
