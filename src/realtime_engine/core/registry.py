"""What the serve loop remembers beyond the life of a session."""

from __future__ import annotations

from collections.abc import Callable

from .clock import NS_PER_S
from .loglimit import LogLimiter

_MOST_IDENTITIES = 65_536
_FIRST_RETRY_NS = NS_PER_S // 10
_MOST_ATTEMPTS = 8
_MOST_HELD = 4096


class Identities:
    """Epoch and sequence number of ids that have left, so that a later session of the same id carries on.

    Of more than 65,536 ids the one that left first is forgotten and would start over.
    """

    def __init__(self) -> None:
        self._left: dict[str, tuple[int, int]] = {}

    def begin(self, session_id: str) -> tuple[int, int]:
        """The epoch and the first sequence number of a session that attaches now."""
        epoch, seq = self._left.pop(session_id, (0, 0))
        return epoch + 1, seq

    def end(self, session_id: str, epoch: int, seq: int) -> None:
        self._left[session_id] = (epoch, seq)
        if len(self._left) > _MOST_IDENTITIES:
            del self._left[next(iter(self._left))]

    def epoch(self, session_id: str) -> int:
        """The last epoch of an id that is not attached; 0 if it never was."""
        return self._left.get(session_id, (0, 0))[0]


class Releases:
    """Sessions that are over for their caller and that the engine would not let go of yet.

    ``release`` is tried at once and then again after 0.1, 0.2, 0.4 ... seconds, eight times in all. Of more than 4096
    the oldest is forgotten.
    """

    def __init__(self, release: Callable[[str], None], log: LogLimiter) -> None:
        self._release = release
        self._log = log
        self._held: dict[str, tuple[int, int | None]] = {}  # id -> attempts made, time of the next

    @property
    def waiting(self) -> bool:
        return bool(self._held)

    @property
    def next_ns(self) -> int | None:
        """When to call :meth:`retry` next."""
        return min((when for _, when in self._held.values() if when is not None), default=None)

    def release(self, session_id: str, now_ns: int) -> BaseException | None:
        """Try now; on failure remember the id and return the error."""
        error = self._try(session_id)
        self._held.pop(session_id, None)
        if error is not None:
            self._held[session_id] = (1, now_ns + _FIRST_RETRY_NS)
            if len(self._held) > _MOST_HELD:
                del self._held[next(iter(self._held))]
        return error

    def settle(self, session_id: str) -> bool:
        """Try again out of turn, because the id is wanted; true when nothing is held under it."""
        if session_id not in self._held:
            return True
        if self._try(session_id) is not None:
            return False
        del self._held[session_id]
        return True

    def retry(self, now_ns: int) -> None:
        """Try those whose time has come."""
        for session_id, (attempts, when) in list(self._held.items()):
            if when is None or now_ns < when:
                continue
            if self._try(session_id) is None:
                del self._held[session_id]
            elif attempts + 1 < _MOST_ATTEMPTS:
                self._held[session_id] = (attempts + 1, now_ns + (_FIRST_RETRY_NS << attempts))
            else:
                self._held[session_id] = (
                    attempts + 1,
                    None,
                )  # its row stays taken until the id is attached again

    def _try(self, session_id: str) -> BaseException | None:
        try:
            self._release(session_id)
        except BaseException as error:
            self._log.error("detach failed", error, session_id)
            return error
        return None
