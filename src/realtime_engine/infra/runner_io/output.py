"""Where a run puts its files."""

from __future__ import annotations

import os
from pathlib import Path

from ..atomic_file import check_free


def output_path(directory: str | os.PathLike[str], name: str, *, overwrite: bool = False) -> Path:
    """The path of a file called ``name`` in ``directory``, which is made if need be.

    Ask before the work begins: a run that cannot keep its result should not start.

    Raises:
        FileExistsError: there is such a file, and ``overwrite`` is not asked for; or ``directory`` is a file.
        IsADirectoryError: there is a directory of that name.
        ValueError: a name that is empty or leads elsewhere.
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
