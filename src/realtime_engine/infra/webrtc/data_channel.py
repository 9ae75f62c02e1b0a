"""The data channel ``controls``: text messages of the controls protocol, both ways."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from aiortc import InvalidStateError, RTCDataChannel

from ...core.clock import MONOTONIC, Clock
from ...core.loglimit import LogLimiter
from ..controls import error_message
from ..rate_limit import MESSAGES_PER_S, TokenBucket, message_cost

logger = logging.getLogger(__name__)
_log = LogLimiter(logger, MONOTONIC)

LABEL = "controls"
OnControls = Callable[[str], list[str]]

_MAX_BUFFERED = 262_144  # bytes
_WARNINGS_PER_S = 1.0


class ControlsChannel:
    """One viewer's controls channel, once the viewer has opened it.

    Messages beyond the rate limit are dropped, and an error reply says so, at most once a second.

    Args:
        on_text: called with each message; the texts that it returns are sent back.
    """

    def __init__(self, on_text: OnControls, clock: Clock = MONOTONIC) -> None:
        self._on_text = on_text
        self._messages = TokenBucket(MESSAGES_PER_S, MESSAGES_PER_S, clock)
        self._warnings = TokenBucket(_WARNINGS_PER_S, 1, clock)
        self._has_refused = False
        self._channel: RTCDataChannel | None = None

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self._channel is not None and self._channel.readyState == "open"

    def attach(self, channel: RTCDataChannel) -> None:
        """Use ``channel`` if it is the controls channel, close it if not. A newer one replaces an older one."""
        lossy = channel.maxPacketLifeTime is not None or channel.maxRetransmits is not None or not channel.ordered
        if channel.label != LABEL or lossy:
            if not self._has_refused:  # one warning a viewer, which may open hundreds
                self._has_refused = True
                logger.warning(
                    "closed the data channel %r: expected one named %r, reliable and ordered", channel.label[:80], LABEL
                )
            channel.close()
            return
        self._channel = channel
        channel.on("message", self._on_message)

    def send(self, text: str) -> bool:
        """Send ``text``; false when the channel is not open or the viewer does not read what it is sent."""
        channel = self._channel
        if channel is None or channel.readyState != "open" or channel.bufferedAmount > _MAX_BUFFERED:
            return False
        try:
            channel.send(text)
        except (InvalidStateError, ConnectionError):
            return False
        return True

    def _on_message(self, message: str | bytes) -> None:
        cost = min(message_cost(len(message)), MESSAGES_PER_S)
        if not self._messages.allow(cost):
            self._warn()
            return
        text = message if isinstance(message, str) else message.decode(errors="replace")
        try:
            replies = self._on_text(text)
        except Exception as error:
            _log.error("a controls message could not be handled", error)
            return
        for reply in replies:
            self.send(reply)

    def _warn(self) -> None:
        if self._warnings.allow():
            detail = f"rate limit exceeded: more than {MESSAGES_PER_S:g} messages a second are dropped"
            self.send(json.dumps(error_message("bad_message", detail)))
