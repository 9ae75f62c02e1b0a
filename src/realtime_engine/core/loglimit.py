"""Rate-limited logging of errors: one line per second and cause."""

from __future__ import annotations

import contextlib
import logging

from .clock import NS_PER_S, Clock
from .errors import describe

_MAX_CAUSES = 256


class LogLimiter:
    """Logs an error at most once per second for each cause, with the number of those suppressed since.

    Args:
        logger: receives the lines.
        clock: time.
    """

    def __init__(self, logger: logging.Logger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._causes: dict[tuple[str, str], _Cause] = {}

    def error(self, what: str, error: BaseException, session_id: str = "") -> None:
        """Log an error unless its cause was logged within the last second.

        Args:
            what: what failed; with the type of the error, it makes the cause, for all sessions together.
            error: logged with its traceback.
            session_id: shown in the line.
        """
        key = (what, type(error).__name__)
        cause = self._causes.get(key)
        if cause is None:
            if len(self._causes) >= _MAX_CAUSES:
                self._causes.clear()
            cause = self._causes[key] = _Cause()
        now = self._clock.now_ns()
        if cause.next_ns is not None and now < cause.next_ns:
            cause.suppressed += 1
            return
        cause.next_ns = now + NS_PER_S
        suppressed, cause.suppressed = cause.suppressed, 0
        count = f" ({suppressed} more in between)" if suppressed else ""
        session = f" [{session_id!r}]" if session_id else ""
        self._log("%s%s: %s%s", what, session, describe(error), count, exc_info=error)

    def flush(self) -> None:
        """Log how many errors were suppressed since their last line."""
        for (what, kind), cause in self._causes.items():
            if cause.suppressed:
                self._log("%s: %s (%d more)", what, kind, cause.suppressed)
                cause.suppressed = 0

    def _log(self, text: str, *args: object, exc_info: BaseException | None = None) -> None:
        with contextlib.suppress(Exception):  # an application's log filter or handler may raise
            self._logger.error(text, *args, exc_info=exc_info)


class _Cause:
    __slots__ = ("next_ns", "suppressed")

    def __init__(self) -> None:
        self.next_ns: int | None = None
        self.suppressed = 0
