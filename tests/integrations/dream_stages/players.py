"""Players whose n-th chunk is always told the same, whenever it is made, and engines that make each of them one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from realtime_engine.core.contract import RealtimeInterface, SessionInit
from realtime_engine.integrations.dream.level import THEMES

Frames = NDArray[np.uint8]


def context_of(player: int) -> dict[str, Any]:
    """Some begin with a theme, some without."""
    return {"seed": 17 * player + 1, **({"theme": THEMES[player % 3]} if player % 4 else {})}


def told(player: int, chunk: int) -> dict[str, Any]:
    """Conditioning and events of a chunk."""
    pointer = [{"kind": "pointer_move", "dx": 40.0 * player - 60}] if chunk % 3 == 1 else []
    themes = {"theme": THEMES[(player + chunk // 7) % 3]} if player % 5 else {}
    astray = 0.25 * (player % 3) if chunk > 1 else 0.0
    return {"forward": 1.0, "turn": (player - chunk) % 3 - 1.0, "run": chunk > 3, "astray": astray, **themes} | {
        "events": pointer
    }


def name_of(player: int) -> str:
    return f"player-{player}"


class Table:
    """An engine at which players come and go; ``chunks`` is what each life of a player has seen, in order."""

    def __init__(self, engine: RealtimeInterface) -> None:
        self.engine = engine
        self.chunks: dict[tuple[int, int], list[Frames]] = {}
        self._lives: dict[int, int] = {}
        self._here: set[int] = set()

    def enter(self, player: int) -> None:
        self.engine.attach(SessionInit(name_of(player), context_of(player)))
        self._here.add(player)
        self._lives[player] = self._lives.get(player, -1) + 1
        self._seen(player)

    def leave(self, player: int) -> None:
        self.engine.detach(name_of(player))
        self._here.remove(player)

    def make(self, players: Collection[int]) -> None:
        """One chunk for each of these; one that sits out a step for its theme is asked again, without its events."""
        due: dict[str, Mapping[str, Any]] = {name_of(p): told(p, len(self._seen(p))) for p in players}
        while due:
            for result in self.engine.step(due):
                self._seen(int(result.session_id.removeprefix("player-"))).append(result.output)
                del due[result.session_id]
            due = {name: {**given, "events": []} for name, given in due.items()}

    @property
    def here(self) -> list[int]:
        return sorted(self._here)

    def _seen(self, player: int) -> list[Frames]:
        return self.chunks.setdefault((player, self._lives[player]), [])


def differences(got: Mapping[Any, list[Frames]], wanted: Mapping[Any, list[Frames]]) -> list[tuple[Any, int]]:
    """Which chunks are not the same bits."""
    assert {key: len(seen) for key, seen in got.items()} == {key: len(seen) for key, seen in wanted.items()}
    return [
        (key, number)
        for key, seen in got.items()
        for number, (left, right) in enumerate(zip(seen, wanted[key], strict=True))
        if not np.array_equal(left, right)
    ]
