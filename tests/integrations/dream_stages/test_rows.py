from realtime_engine.core.streaming import StreamingSessionCloseReason, StreamingSessionContext
from realtime_engine.integrations.dream_stages.rows import Rows


def release(rows: Rows, session_id: str) -> None:
    rows.release(StreamingSessionContext(session_id, 1), StreamingSessionCloseReason.CLOSED)


def test_a_session_keeps_its_row_until_it_leaves_and_the_lowest_free_one_is_next() -> None:
    rows = Rows(3)
    assert [rows.of(name) for name in "abcab"] == [0, 1, 2, 0, 1]
    release(rows, "c")
    release(rows, "a")
    assert [rows.of(name) for name in "bde"] == [1, 0, 2]


def test_who_never_came_may_leave() -> None:
    rows = Rows(1)
    release(rows, "a")
    assert rows.of("b") == 0
