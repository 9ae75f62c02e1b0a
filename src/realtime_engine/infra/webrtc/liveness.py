"""Notices that a viewer has vanished: it is sent frames and answers nothing."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.clock import NS_PER_S


@dataclass(frozen=True)
class Patience:
    """How long a viewer may be silent, in seconds.

    Attributes:
        connect_s: from the answer to the connection.
        silence_s: from the first frame that it did not answer. Receivers report every second or so (RFC 3550), and a
            network that is gone for 5 s, as when a phone changes cells, should not end the connection.
    """

    connect_s: float = 15.0
    silence_s: float = 6.0

    @property
    def poll_s(self) -> float:
        """How often to look, so that a vanished viewer is noticed within 1.2 times the limit."""
        return min(self.connect_s, self.silence_s) / 8


class Liveness:
    """Decides from counters, without a clock or a connection of its own.

    A viewer that is sent nothing owes no answer: nothing is held against it while the source rests.
    """

    def __init__(self, patience: Patience, now_ns: int) -> None:
        self._patience = patience
        self._begun_ns = now_ns
        self._received = 0
        self._sent = 0
        self._unanswered_ns: int | None = None

    def has_vanished(self, now_ns: int, *, connected: bool, sent: int, received: int) -> bool:
        """Whether to give up.

        Args:
            sent: frames sent so far.
            received: packets received from the viewer so far, of any kind.
        """
        if not connected:
            return now_ns - self._begun_ns > self._patience.connect_s * NS_PER_S
        if received > self._received:
            self._received = received
            self._unanswered_ns = None
        elif self._unanswered_ns is None and sent > self._sent:
            self._unanswered_ns = now_ns
        self._sent = sent
        return self._unanswered_ns is not None and now_ns - self._unanswered_ns > self._patience.silence_s * NS_PER_S
