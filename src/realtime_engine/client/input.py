"""Input state of a client, encoded as messages of the controls protocol (docs/protocol.md, version 1)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

VERSION = 1


class InputState:
    """Held keys and sequence numbers of one session. Methods that create a message return its number and text."""

    def __init__(self) -> None:
        self._next_message = 0
        self._next_edge = 0
        self._keys: list[str] = []

    @property
    def keys(self) -> tuple[str, ...]:
        """Held keys, oldest press first."""
        return tuple(self._keys)

    def press(self, code: str) -> tuple[int, str]:
        """Hold a key."""
        if code in self._keys:
            return self._controls()
        self._keys.append(code)
        return self._controls([{"kind": "key_down", "code": code}])

    def release(self, code: str) -> tuple[int, str]:
        """Release a key."""
        if code not in self._keys:
            return self._controls()
        self._keys.remove(code)
        return self._controls([{"kind": "key_up", "code": code}])

    def tap(self, code: str) -> tuple[int, str]:
        """Press and release within one message: the step sees the edges only."""
        return self._controls([{"kind": "key_down", "code": code}, {"kind": "key_up", "code": code}])

    def move_pointer(self, dx: float, dy: float) -> tuple[int, str]:
        """Move the pointer by CSS pixels."""
        return self._controls([{"kind": "pointer_move", "dx": dx, "dy": dy}])

    def set_fields(self, fields: Mapping[str, Any]) -> tuple[int, str]:
        """Set typed fields."""
        return self._controls(fields=dict(fields))

    def heartbeat(self) -> list[str]:
        """A message that extends the hold of keys, if any, and a ping."""
        held = [self._controls()[1]] if self._keys else []
        return [*held, self.number({"type": "ping", "t": _now_ms()})[1]]

    def number(self, message: Mapping[str, Any]) -> tuple[int, str]:
        """Add missing members ``v`` and ``seq`` to a message."""
        seq = message.get("seq", self._next_message)
        if isinstance(seq, int):
            self._next_message = max(self._next_message, seq + 1)
        return seq, json.dumps({"v": VERSION, **message, "seq": seq}, separators=(",", ":"))

    def _controls(
        self, edges: Sequence[dict[str, Any]] = (), fields: Mapping[str, Any] | None = None
    ) -> tuple[int, str]:
        now = _now_ms()
        first, self._next_edge = self._next_edge, self._next_edge + len(edges)
        message: dict[str, Any] = {"type": "controls", "t": now, "keys": list(self._keys)}
        if edges:
            message["edges"] = [{"seq": seq, "t": now, **edge} for seq, edge in enumerate(edges, first)]
        if fields is not None:
            message["fields"] = fields
        return self.number(message)


def _now_ms() -> float:
    return time.monotonic_ns() / 1e6
