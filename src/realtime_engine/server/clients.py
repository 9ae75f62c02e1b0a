"""Those who are connected to a session and can be told something."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

Send = Callable[[str], object]


class Clients:
    """The connections of one session that carry control messages, whatever their transport.

    Args:
        on_last_left: called when the last one has gone, so that nothing stays pressed.
    """

    def __init__(self, on_last_left: Callable[[], None]) -> None:
        self._on_last_left = on_last_left
        self._sends: dict[object, Send] = {}

    def __len__(self) -> int:
        return len(self._sends)

    def join(self, key: object, send: Send) -> None:
        """``send`` takes the text of a message, does not block and does not raise."""
        self._sends[key] = send

    def leave(self, key: object) -> None:
        """Nothing happens for one who has left already."""
        if self._sends.pop(key, None) is not None and not self._sends:
            self._on_last_left()

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send a message to all."""
        text = json.dumps(message)
        for send in tuple(self._sends.values()):
            send(text)
