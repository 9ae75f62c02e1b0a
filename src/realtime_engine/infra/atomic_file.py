"""Files that appear completely or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


def check_free(path: Path, *, overwrite: bool = False) -> None:
    """Check that a file can be written at ``path``.

    Raises:
        FileExistsError: the file exists, and ``overwrite`` is false.
        IsADirectoryError: ``path`` is a directory.
        FileNotFoundError: the parent directory does not exist.
    """
    if path.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a directory, a file name is expected")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no directory {path.parent}; make it first")
    if not overwrite and os.path.lexists(path):
        raise _exists(path)


class AtomicFile:
    """A file that has a temporary name in its target directory until it is complete.

    Attributes:
        path: the target.
        temporary: the path to write to. A killed process leaves this file behind.

    Raises:
        OSError: the target cannot be written, see :func:`check_free`.
    """

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        self.path = Path(path)
        self._overwrite = overwrite
        check_free(self.path, overwrite=overwrite)
        self.temporary = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.part")

    def commit(self) -> Path:
        """Flush the file to disk and rename it to the target.

        Raises:
            FileExistsError: the target was created in the meantime, and must not be overwritten.
        """
        with open(self.temporary, "rb+") as file:
            os.fsync(file.fileno())
        if self._overwrite:
            os.replace(self.temporary, self.path)
        else:
            self._name_if_free()
        return self.path

    def discard(self) -> None:
        """Remove the temporary file, if it exists."""
        self.temporary.unlink(missing_ok=True)

    def _name_if_free(self) -> None:
        try:
            os.link(self.temporary, self.path)  # unlike a rename, this fails if the target exists
        except FileExistsError:
            raise _exists(self.path) from None
        except OSError:  # a file system without hard links, where two writers may race
            check_free(self.path)
            os.replace(self.temporary, self.path)
        self.discard()


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """Yield the temporary path to write to; it is renamed to ``path`` unless the block raises."""
    file = AtomicFile(path, overwrite=overwrite)
    try:
        yield file.temporary
        file.commit()
    finally:
        file.discard()


def _exists(path: Path) -> FileExistsError:
    return FileExistsError(f"{path} exists: choose another name, or allow overwriting")
