"""Sessions by id, and when an id is free."""

from __future__ import annotations

import pytest

from realtime_engine.core.streaming.errors import SequenceError, SessionActiveError, UnknownSessionError
from realtime_engine.core.streaming.graph import PipelineGraph
from realtime_engine.core.streaming.session import StreamingSession
from realtime_engine.core.streaming.session_table import SessionTable
from realtime_engine.core.streaming.tasks import StreamingSessionStatus

from .pipelines import chain


def end(session: StreamingSession, error: BaseException | None = None) -> None:
    session.status, session.released, session.cleanup_error = StreamingSessionStatus.CANCELLED, True, error


def test_an_id_is_free_when_its_last_session_is_released_entirely() -> None:
    table = SessionTable(PipelineGraph(chain()), 8)
    first = table.add("s", (), None)
    with pytest.raises(SessionActiveError, match="'s' is running"):
        table.add("s", (), None)
    first.status = StreamingSessionStatus.FAILED
    with pytest.raises(SessionActiveError, match="not released yet"):
        table.add("s", (), None)
    table.forget(first)
    assert table.get("s") is first
    end(first)
    second = table.add("s", (), 3)
    assert second.context.session_epoch > first.context.session_epoch and second.final == 3
    table.forget(first)  # its successor stays
    assert table.get("s") is second
    end(second, OSError("device lost"))
    table.forget(second)
    with pytest.raises(SessionActiveError, match="cannot be used again: device lost"):
        table.add("s", (), None)
    assert len(table) == 1


def test_a_refused_session_leaves_nothing() -> None:
    table = SessionTable(PipelineGraph(chain()), 8)
    with pytest.raises(SequenceError):
        table.add("s", (), -1)
    assert table.all() == []
    with pytest.raises(UnknownSessionError, match="there is no session 's'"):
        table.get("s")


def test_ids_that_left_are_not_remembered() -> None:
    table = SessionTable(PipelineGraph(chain()), 8)
    epochs = []
    for number in range(100):
        session = table.add(f"s{number}", (), None)
        epochs.append(session.context.session_epoch)
        end(session)
        table.forget(session)
    assert len(table) == 0 and epochs == list(range(1, 101))
