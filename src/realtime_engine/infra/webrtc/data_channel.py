"""The data channel named ``controls``: text from the viewer, text back."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from aiortc import InvalidStateError, RTCDataChannel

from ...core.clock import MONOTONIC, NS_PER_S, Clock
from ...core.loglimit import LogLimiter
from ..controls import error_message

logger = logging.getLogger(__name__)
_log = LogLimiter(logger, MONOTONIC)

LABEL = "controls"
OnControls = Callable[[str], list[str]]

_MAX_BUFFERED = 262_144
_MAX_PER_S = 500


class ControlsChannel:
    """Takes the channel that the viewer opens.

    Args:
        on_text: called with each message; what it returns is sent back. Of more than 500 messages in a second the rest
            is dropped, which one error reply tells.
    """

    def __init__(self, on_text: OnControls, clock: Clock = MONOTONIC) -> None:
        self._on_text = on_text
        self._clock = clock
        self._second_ends_ns = 0
        self._taken = 0
        self._refused_channel = False
        self._channel: RTCDataChannel | None = None

    @property
    def is_open(self) -> bool:
        return self._channel is not None and self._channel.readyState == "open"

    def take(self, channel: RTCDataChannel) -> None:
        """Use ``channel`` if it is ours, close it if not. The newest one replaces an older one."""
        lossy = channel.maxPacketLifeTime is not None or channel.maxRetransmits is not None or not channel.ordered
        if channel.label != LABEL or lossy:
            if not self._refused_channel:  # once a viewer: it may open hundreds
                self._refused_channel = True
                logger.warning(
                    "closed the data channel %r: expected one named %r, reliable and ordered", channel.label[:80], LABEL
                )
            channel.close()
            return
        self._channel = channel
        channel.on("message", self._receive)

    def send(self, text: str) -> bool:
        """Send ``text``. False when the channel is not open, or the viewer has stopped taking what it is sent."""
        channel = self._channel
        if channel is None or channel.readyState != "open" or channel.bufferedAmount > _MAX_BUFFERED:
            return False
        try:
            channel.send(text)
        except (InvalidStateError, ConnectionError):
            return False
        return True

    def _receive(self, message: str | bytes) -> None:
        if not self._has_room():
            return
        text = message if isinstance(message, str) else message.decode(errors="replace")
        try:
            replies = self._on_text(text)
        except Exception as error:
            _log.error("a controls message could not be handled", error)
            return
        for reply in replies:
            self.send(reply)

    def _has_room(self) -> bool:
        """Count a message; false when this second has had too many."""
        now_ns = self._clock.now_ns()
        if now_ns >= self._second_ends_ns:
            self._second_ends_ns, self._taken = now_ns + NS_PER_S, 0
        self._taken += 1
        if self._taken == _MAX_PER_S + 1:
            detail = f"more than {_MAX_PER_S} messages in a second: the rest of them is dropped"
            self.send(json.dumps(error_message("bad_message", detail)))
        return self._taken <= _MAX_PER_S
