"""What the scheduler has decided, to be done outside its lock."""

from __future__ import annotations

from typing import NamedTuple

from ..waiters import Waiter
from .session import StreamingSession
from .slots import Slot
from .work import StageWork


class Effects(NamedTuple):
    """What is to be done.

    Attributes:
        started: works to submit to their actors.
        withdrawn: works to cancel at their actors.
        woken: tasks to wake.
        ended: sessions to release.
        dropped: values to let go of: what their finalizers do must not happen under the lock.
    """

    started: list[StageWork]
    withdrawn: list[StageWork]
    woken: list[Waiter]
    ended: list[StreamingSession]
    dropped: list[Slot]
