"""A disk cache of downloaded files."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import logging
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ..atomic_file import atomic_file
from .errors import FetchError, InputError

_log = logging.getLogger(__name__)

_PIECE = 1 << 16
_STALE_S = 24 * 3600.0  # an older partial file belongs to a dead process
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Cache:
    """A directory of downloaded files. Any number of threads and processes may share it.

    A cached file is not downloaded again, so pass a checksum if the content may change. Files appear when they are
    complete. If the total size exceeds ``max_bytes``, the least recently used files are evicted.

    Do not fetch URLs given by untrusted clients: they may point to hosts that only this machine can reach.

    Args:
        directory: the directory, created when needed. By default ``realtime-engine`` in ``$XDG_CACHE_HOME`` or
            ``~/.cache``.
        max_bytes: maximum total size.
        max_file_bytes: maximum size of one file.
        timeout_s: maximum duration of a download, and maximum time without a response, in seconds.

    Raises:
        ValueError: a limit is not above 0.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        max_bytes: int = 8 << 30,
        max_file_bytes: int = 1 << 30,
        timeout_s: float = 60.0,
    ) -> None:
        for name, bound in (("max_bytes", max_bytes), ("max_file_bytes", max_file_bytes), ("timeout_s", timeout_s)):
            if not bound > 0:
                raise ValueError(f"{name} is above 0, got {bound!r}")
        self.directory = Path(directory) if directory is not None else _default_directory()
        self._max_bytes = max_bytes
        self._max_file_bytes = max_file_bytes
        self._timeout_s = timeout_s
        self._opener = urllib.request.build_opener(_Redirects)

    def fetch(self, url: str, *, sha256: str | None = None) -> Path:
        """Return the local file of an http or https URL, downloading it if needed.

        Args:
            url: the URL.
            sha256: expected checksum, as 64 hexadecimal digits.

        Raises:
            InputError: the URL or the checksum is invalid, or the content has another checksum.
            FetchError: the download failed, was too large, too slow or incomplete, or could not be stored.
        """
        _check_url(url)
        wanted = _checked_sha256(sha256)
        path = self._path_of(url)
        if self._is_here(path, wanted):
            return path
        shown = _shown(url)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with atomic_file(path, overwrite=True) as temporary, open(temporary, "xb") as file:
                found = self._transfer(url, file)
                if wanted not in (None, found):
                    raise InputError(shown, f"its SHA-256 is {found}, not {wanted}", "check the URL and the checksum")
        except FetchError:
            raise
        except (OSError, http.client.HTTPException) as error:
            raise FetchError(
                shown, f"it cannot be downloaded or stored ({_reason(error)})", "try again, or pass a file"
            ) from error
        self._make_room(path)
        return path

    def _path_of(self, url: str) -> Path:
        ending = Path(urllib.parse.urlsplit(url).path).suffix
        suffix = ending if re.fullmatch(r"\.\w{1,8}", ending, re.ASCII) else ""
        return self.directory / (hashlib.sha256(url.encode()).hexdigest() + suffix)

    def _is_here(self, path: Path, wanted: str | None) -> bool:
        try:
            if wanted is not None and _sha256_of(path) != wanted:
                return False
            os.utime(path)
        except FileNotFoundError:
            return False
        return True

    def _transfer(self, url: str, file: IO[bytes]) -> str:
        """Download into ``file`` and return the checksum."""
        shown, digest, size = _shown(url), hashlib.sha256(), 0
        deadline = time.monotonic() + self._timeout_s
        with self._answer(url) as answer:
            announced = _length(answer)
            if announced is not None and announced > self._max_file_bytes:
                raise self._too_large(shown)
            while piece := answer.read1(_PIECE):
                size += len(piece)
                if size > self._max_file_bytes:
                    raise self._too_large(shown)
                if time.monotonic() > deadline:
                    raise FetchError(shown, f"incomplete after {self._timeout_s} s", "allow more time, or pass a file")
                digest.update(piece)
                file.write(piece)
        if announced is not None and size < announced:
            raise FetchError(shown, f"it broke off after {size} of {announced} bytes", "try again")
        return digest.hexdigest()

    @contextlib.contextmanager
    def _answer(self, url: str) -> Iterator[Any]:
        request = urllib.request.Request(url, headers={"User-Agent": "realtime-engine"})
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                yield answer
        except urllib.error.HTTPError as error:
            error.close()
            raise FetchError(_shown(url), f"the server answers {error.code} {error.reason}", "check the URL") from error
        except TimeoutError as error:
            raise FetchError(
                _shown(url), f"no answer within {self._timeout_s} s", "allow more time, or give a file"
            ) from error

    def _too_large(self, shown: str) -> FetchError:
        return FetchError(shown, f"it is larger than {self._max_file_bytes} bytes", "allow more, or give a smaller one")

    def _make_room(self, newest: Path) -> None:
        """Evict the least recently used files, and remove stale partial files."""
        kept = self._max_bytes
        now = time.time()
        for path, size, used in sorted(self._files(), key=lambda file: (file[0] != newest, -file[2])):
            if path.name.endswith(".part"):
                if now - used > _STALE_S:
                    path.unlink(missing_ok=True)
                continue
            kept -= size
            if kept < 0 and path != newest:
                _log.info("the cache is full, dropping %s", path)
                path.unlink(missing_ok=True)

    def _files(self) -> Iterator[tuple[Path, int, float]]:
        for path in self.directory.iterdir():
            with contextlib.suppress(FileNotFoundError):  # evicted by another process
                status = path.stat()
                yield path, status.st_size, status.st_mtime


def local_path(source: str | os.PathLike[str], *, cache: Cache | None = None, sha256: str | None = None) -> Path:
    """Return the local file of ``source``, a path or an http or https URL.

    Args:
        source: the path or URL.
        cache: cache of downloads; by default ``Cache()``.
        sha256: expected checksum, as 64 hexadecimal digits.

    Raises:
        FileNotFoundError: the file does not exist.
        InputError: it is a directory or another kind of URL, or it has another checksum.
        FetchError: the download failed, see :meth:`Cache.fetch`.
    """
    if isinstance(source, str) and "://" in source:
        return (cache or Cache()).fetch(source, sha256=sha256)
    path, wanted = Path(source), _checked_sha256(sha256)
    if path.is_dir():
        raise InputError(path, "it is a directory", "give a file in it")
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file; check the path (relative to {Path.cwd()})")
    if wanted is not None:
        found = _sha256_of(path)
        if found != wanted:
            raise InputError(path, f"its SHA-256 is {found}, not {wanted}", "check the file and the checksum")
    return path


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects to other schemes than http and https."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urllib.parse.urlsplit(newurl).scheme not in ("http", "https"):
            raise FetchError(_shown(req.full_url), f"it leads to {_shown(newurl)}", "give an http or https URL")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _default_directory() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "realtime-engine"


def _check_url(url: str) -> None:
    try:
        parts = urllib.parse.urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if good and "@" in parts.netloc:
        raise InputError(_shown(url), "it has a user or password in it", "bring the file here yourself")
    if not good or re.search(r"[\x00-\x20\x7f-\uffff]", url):
        raise InputError(
            repr(url), "it is not an http or https URL", "give one, percent-encoded, or the path of a file"
        )


def _checked_sha256(sha256: str | None) -> str | None:
    if sha256 is None:
        return None
    if not _SHA256.fullmatch(sha256.lower()):
        raise InputError(repr(sha256), "it is not a SHA-256", "give 64 hexadecimal digits, as of sha256sum")
    return sha256.lower()


def _sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _length(answer: Any) -> int | None:
    text = answer.headers.get("Content-Length", "")
    return int(text) if text.isdecimal() else None


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error or type(error).__name__)


def _shown(url: str) -> str:
    """The URL without possible secrets: user, password and query."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
