"""The data channel named ``controls``: text from the viewer, text back."""

from __future__ import annotations

import logging
from collections.abc import Callable

from aiortc import InvalidStateError, RTCDataChannel

logger = logging.getLogger(__name__)

LABEL = "controls"
OnControls = Callable[[str], list[str]]

_MOST_BUFFERED = 262_144


class ControlsChannel:
    """Takes the channel that the viewer opens.

    Args:
        on_text: called with each message; what it returns is sent back.
    """

    def __init__(self, on_text: OnControls) -> None:
        self._on_text = on_text
        self._channel: RTCDataChannel | None = None

    @property
    def is_open(self) -> bool:
        return self._channel is not None and self._channel.readyState == "open"

    def take(self, channel: RTCDataChannel) -> None:
        """Use ``channel`` if it is ours, close it if not. The newest one replaces an older one."""
        lossy = channel.maxPacketLifeTime is not None or channel.maxRetransmits is not None or not channel.ordered
        if channel.label != LABEL or lossy:
            logger.warning(
                "closed the data channel %r: expected one named %r, reliable and ordered", channel.label, LABEL
            )
            channel.close()
            return
        self._channel = channel
        channel.on("message", self._receive)

    def send(self, text: str) -> bool:
        """Send ``text``. False when the channel is not open, or the viewer has stopped taking what it is sent."""
        channel = self._channel
        if channel is None or channel.readyState != "open" or channel.bufferedAmount > _MOST_BUFFERED:
            return False
        try:
            channel.send(text)
        except (InvalidStateError, ConnectionError):
            return False
        return True

    def _receive(self, message: str | bytes) -> None:
        try:
            text = message if isinstance(message, str) else message.decode()
            replies = self._on_text(text)
        except Exception:
            logger.exception("a controls message could not be handled")
            return
        for reply in replies:
            self.send(reply)
