"""How long somebody waits."""

from __future__ import annotations

import math
import threading

from realtime_engine.core.streaming.deadline import Deadline


def test_what_remains_is_never_negative_and_never_too_long_for_a_lock() -> None:
    assert 0.0 < Deadline(60.0).remaining() <= 60.0
    assert Deadline(0.0).remaining() == 0.0 == Deadline(-1.0).remaining()
    assert Deadline(math.inf).remaining() == threading.TIMEOUT_MAX
