"""What the scheduler has decided, to be done outside its lock."""

from __future__ import annotations

from typing import NamedTuple

from ..waiters import Waiter
from .session import StreamingSession
from .work import StageWork


class Effects(NamedTuple):
    """What is to be done.

    Attributes:
        started: works to submit to their actors.
        withdrawn: works to cancel at their actors.
        woken: tasks to wake.
        ended: sessions to release.
    """

    started: list[StageWork]
    withdrawn: list[StageWork]
    woken: list[Waiter]
    ended: list[StreamingSession]
