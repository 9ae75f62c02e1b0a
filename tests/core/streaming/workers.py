"""Objects that tests put into worker processes, and invocations for actors."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from realtime_engine.core.streaming.types import StreamingSessionContext, StreamingStageInvocation, StreamingTaskKey

TIMEOUT_S = 60.0


def invocation(sequence_id: int = 0, session_id: str = "a", **inputs: object) -> StreamingStageInvocation:
    key = StreamingTaskKey(session_id, 1, sequence_id, "stage", f"{session_id}-{sequence_id}")
    return StreamingStageInvocation(key, inputs, sequence_id == 0, False)


def context(session_id: str = "a") -> StreamingSessionContext:
    return StreamingSessionContext(session_id, 1)


class Unpicklable(Exception):
    def __init__(self) -> None:
        super().__init__("nobody takes this along")
        self.lock = threading.Lock()


class Calculator:
    """Lives in the child."""

    def __init__(self) -> None:
        self.calls = 0
        self.kept: list[NDArray[Any]] = []

    def double(self, value: Any) -> Any:
        self.calls += 1
        return value * 2

    def count(self) -> int:
        return self.calls

    def keep(self, value: NDArray[Any]) -> None:
        self.kept.append(value)

    def kept_sums(self) -> list[float]:
        return [float(value.sum()) for value in self.kept]

    def fill(self, shape: tuple[int, ...], value: float) -> NDArray[np.float32]:
        return np.full(shape, value, np.float32)

    def fail(self, text: str) -> None:
        raise ValueError(text)

    def fail_unpicklably(self) -> None:
        raise Unpicklable

    def leave(self) -> None:
        sys.exit(3)

    def lock(self) -> object:
        return threading.Lock()

    def pid(self) -> int:
        return os.getpid()

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def hang(self) -> None:
        time.sleep(3600)

    def close(self) -> str:
        return "the object's own"


def make_nothing() -> object:
    raise LookupError("no weights here")


def die_at_once() -> object:
    os._exit(7)


def hang_at_once() -> object:
    time.sleep(3600)
    return None
