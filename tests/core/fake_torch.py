"""As much of torch.cuda as lanes use, with every operation's happens-before set in place of a device.

An operation that :meth:`FakeTorch.mark` notes is ordered after all that its stream, the events which that stream
waited for, and the host had seen before.
"""

from __future__ import annotations

import contextlib
import threading
import types
from collections.abc import Iterator
from typing import Any


class FakeStream:
    def __init__(self, torch: FakeTorch, device: Any) -> None:
        self.torch, self.device = torch, device
        self.thread = threading.get_ident()
        self.seen: set[str] = set()
        self.waited_for_builder = False
        torch.streams.append(self)

    def wait_stream(self, other: FakeStream) -> None:
        self.waited_for_builder = self.waited_for_builder or other is self.torch.default_stream
        self.seen |= other.seen

    def wait_event(self, event: FakeEvent) -> None:
        self.seen |= event.seen

    def synchronize(self) -> None:
        self.torch.host_seen |= self.seen


class FakeEvent:
    def __init__(self, torch: FakeTorch) -> None:
        self._torch = torch
        self._stream: FakeStream | None = None
        self.seen: set[str] = set()

    def record(self, stream: FakeStream) -> None:
        self._stream = stream
        self.seen = set(stream.seen)

    def query(self) -> bool:
        if self._stream in self._torch.busy:
            return False
        self._torch.host_seen |= self.seen
        return True

    def synchronize(self) -> None:
        self._torch.host_seen |= self.seen


class FakeTorch(types.ModuleType):
    def __init__(self, *, available: bool = True) -> None:
        super().__init__("torch")
        self.streams: list[FakeStream] = []
        self.busy: set[FakeStream] = set()  # streams whose events are not done yet
        self.host_seen: set[str] = set()
        self.before: dict[str, set[str]] = {}  # operation -> what is ordered before it
        self.stream_of: dict[str, FakeStream | None] = {}
        self._local = threading.local()  # each thread has a current stream of its own
        self.probes = 0
        self.default_stream = FakeStream.__new__(FakeStream)
        self.default_stream.seen = {"weights"}
        self.cuda = types.SimpleNamespace(
            is_available=lambda: self._probe(available),
            current_device=lambda: 0,
            current_stream=lambda device: self.default_stream,
            Stream=lambda device: FakeStream(self, device),
            Event=lambda: FakeEvent(self),
            stream=self._use,
        )

    @property
    def current(self) -> FakeStream | None:
        return getattr(self._local, "current", None)

    @property
    def hot(self) -> FakeStream:
        return self.streams[0]

    @property
    def encode(self) -> FakeStream:
        return self.streams[2]

    def mark(self, operation: str) -> None:
        """Enqueue an operation on the current stream."""
        assert operation not in self.before, f"{operation} was enqueued twice"
        assert self.current is not None, f"{operation} runs on no lane"
        self.current.seen |= self.host_seen
        self.before[operation] = set(self.current.seen)
        self.stream_of[operation] = self.current
        self.current.seen.add(operation)

    def _probe(self, available: bool) -> bool:
        self.probes += 1
        return available

    @contextlib.contextmanager
    def _use(self, stream: FakeStream) -> Iterator[None]:
        outer, self._local.current = self.current, stream
        try:
            yield
        finally:
            self._local.current = outer
