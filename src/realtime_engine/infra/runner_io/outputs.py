"""Output files of a run: paths that are free, and statistics as JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Set
from fractions import Fraction
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from ..atomic_file import atomic_file, check_free


def output_path(directory: str | os.PathLike[str], name: str, *, overwrite: bool = False) -> Path:
    """Return the path of an output file in ``directory``, which is created if missing.

    Call it before the run, so that a run that cannot store its result does not start.

    Raises:
        FileExistsError: the file exists and ``overwrite`` is false, or ``directory`` is a file.
        IsADirectoryError: the path is a directory.
        ValueError: the name is empty or contains a directory.
    """
    if name in ("", ".", "..") or "\0" in name or "/" in name or "\\" in name:
        raise ValueError(f"expected the name of a file without directories, got {name!r}")
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise FileExistsError(f"cannot write into {folder}: it is, or lies below, a file and no directory") from None
    path = folder / name
    check_free(path, overwrite=overwrite)
    return path


STATS_SCHEMA = "realtime-engine/stats"
STATS_VERSION = 1


def write_stats(path: str | os.PathLike[str], stats: Mapping[str, Any], *, overwrite: bool = False) -> Path:
    """Write ``stats`` atomically as a JSON object that starts with the members ``schema`` and ``version``.

    NaN and infinities become null. NumPy scalars and arrays, fractions, paths, tuples and sets (sorted as text) become
    the closest JSON type.

    Returns:
        The path.

    Raises:
        TypeError: a value has another type; the message names its location.
        ValueError: ``stats`` contains ``schema`` or ``version``.
        FileExistsError: the file exists, and ``overwrite`` is false.
        OSError: the file cannot be written.
    """
    taken = {"schema", "version"} & set(stats)
    if taken:
        raise ValueError(f"stats must not contain {sorted(taken)[0]!r}: the name is reserved for the file format")
    document = {"schema": STATS_SCHEMA, "version": STATS_VERSION, **to_json(stats)}
    text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    try:
        with atomic_file(path, overwrite=overwrite) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        if error.errno is None:  # raised by AtomicFile with a complete message
            raise
        message = f"cannot write {path}: {error.strerror}; free some space, or write elsewhere"
        raise OSError(error.errno, message) from error
    return Path(path)


def read_stats(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a file of :func:`write_stats`, without ``schema`` and ``version``.

    Raises:
        ValueError: the file has another format or version.
        OSError: the file cannot be read.
    """
    try:
        document = json.loads(Path(path).read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != STATS_SCHEMA:
        raise ValueError(f"{path} contains no statistics: expected an object with schema {STATS_SCHEMA!r}")
    if document.get("version") != STATS_VERSION:
        raise ValueError(f"{path} has stats of version {document.get('version')!r}, this program reads {STATS_VERSION}")
    return {key: value for key, value in document.items() if key not in ("schema", "version")}


def to_json(value: Any, where: str = "stats") -> Any:
    """Convert ``value`` to JSON types, see :func:`write_stats`; ``where`` is its location for error messages."""
    if value is None or isinstance(value, str | bool):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, Mapping):
        return {_key(key, where): to_json(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item, f"{where}[{at}]") for at, item in enumerate(value)]
    if isinstance(value, Set):
        return [to_json(item, where) for item in sorted(value, key=str)]
    if isinstance(value, np.ndarray | np.generic):
        return to_json(value.tolist(), where)
    if isinstance(value, PurePath):
        return str(value)
    return _number(value, where)


def _number(value: Any, where: str) -> int | float | None:
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float | Fraction):
        return float(value) if math.isfinite(value) else None
    raise TypeError(f"{where} is a {type(value).__name__}, which JSON cannot hold: give a number, a string or a list")


def _key(key: Any, where: str) -> str:
    if isinstance(key, str):
        return str(key)
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return str(int(key))
    raise TypeError(f"{where} has the key {key!r}: expected a string or a whole number")
