"""Log lines that cannot flood: one a second for each cause."""

from __future__ import annotations

import contextlib
import logging

from .clock import NS_PER_S, Clock
from .errors import describe

_MAX_CAUSES = 256


class LogLimiter:
    """Logs an error at most once a second for each cause, with the count of those held back since."""

    def __init__(self, logger: logging.Logger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._causes: dict[tuple[str, str], _Cause] = {}

    def error(self, what: str, error: BaseException, session_id: str = "") -> None:
        """``what`` says what failed; it and the type of the error make the cause, whoever's it was."""
        key = (what, type(error).__name__)
        cause = self._causes.get(key)
        if cause is None:
            if len(self._causes) >= _MAX_CAUSES:
                self._causes.clear()
            cause = self._causes[key] = _Cause()
        now = self._clock.now_ns()
        if cause.next_ns is not None and now < cause.next_ns:
            cause.held += 1
            return
        cause.next_ns = now + NS_PER_S
        held, cause.held = cause.held, 0
        again = f" ({held} more in between)" if held else ""
        whose = f" [{session_id!r}]" if session_id else ""
        self._log("%s%s: %s%s", what, whose, describe(error), again, exc_info=error)

    def flush(self) -> None:
        """Report what is still held back."""
        for (what, kind), cause in self._causes.items():
            if cause.held:
                self._log("%s: %s (%d more)", what, kind, cause.held)
                cause.held = 0

    def _log(self, text: str, *args: object, exc_info: BaseException | None = None) -> None:
        with contextlib.suppress(Exception):  # a filter or handler of the application's, which has its own way to tell
            self._logger.error(text, *args, exc_info=exc_info)


class _Cause:
    __slots__ = ("next_ns", "held")

    def __init__(self) -> None:
        self.next_ns: int | None = None
        self.held = 0
