"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


def check_free(path: Path, *, overwrite: bool = False) -> None:
    """Raise unless a file may be written at ``path``.

    Raises:
        FileExistsError: there is one, and ``overwrite`` is not asked for.
        IsADirectoryError: there is a directory.
        FileNotFoundError: the directory that it would be in does not exist.
    """
    if path.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a directory, a file name is expected")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no directory {path.parent}; make it first")
    if not overwrite and os.path.lexists(path):
        raise _exists(path)


class AtomicFile:
    """A file under a temporary name in the directory where it shall be, until it is whole.

    Attributes:
        path: what it will be called.
        temporary: what it is called now; whoever fills it opens this. A process that is killed leaves it behind.

    Raises:
        OSError: as :func:`check_free`.
    """

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        self.path = Path(path)
        self._overwrite = overwrite
        check_free(self.path, overwrite=overwrite)
        self.temporary = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.part")

    def commit(self) -> Path:
        """Give it its name, once what it holds is on the disk.

        Raises:
            FileExistsError: somebody else has made one meanwhile, and it may not be overwritten.
        """
        with open(self.temporary, "rb+") as file:
            os.fsync(file.fileno())
        if self._overwrite:
            os.replace(self.temporary, self.path)
        else:
            self._name_if_free()
        return self.path

    def discard(self) -> None:
        """Remove what there is under the temporary name."""
        self.temporary.unlink(missing_ok=True)

    def _name_if_free(self) -> None:
        try:
            os.link(self.temporary, self.path)  # unlike a rename, it fails where there is one
        except FileExistsError:
            raise _exists(self.path) from None
        except OSError:  # a file system without hard links: here two writers may race
            check_free(self.path)
            os.replace(self.temporary, self.path)
        self.discard()


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """The temporary path to fill; named ``path`` at the end of the block, removed if the block raises."""
    file = AtomicFile(path, overwrite=overwrite)
    try:
        yield file.temporary
        file.commit()
    finally:
        file.discard()


def _exists(path: Path) -> FileExistsError:
    return FileExistsError(f"{path} exists and is not overwritten: choose another name, or ask for overwriting")
