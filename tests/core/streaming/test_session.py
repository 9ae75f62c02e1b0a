"""Sessions by id, and when an id is free."""

from __future__ import annotations

import pytest

from realtime_engine.core.streaming.errors import (
    SequenceError,
    SessionActiveError,
    SessionEndedError,
    UnknownSessionError,
)
from realtime_engine.core.streaming.graph import PipelineGraph
from realtime_engine.core.streaming.metrics import PipelineTotals
from realtime_engine.core.streaming.session import (
    AcceptedSequences,
    SessionTable,
    StreamingSession,
    check_artifacts,
    check_final,
    check_open,
    check_sequence,
    has_room,
)
from realtime_engine.core.streaming.types import StreamingSessionStatus

from .pipelines import Bench, chain, diamond


def end(session: StreamingSession, error: BaseException | None = None) -> None:
    session.status, session.released, session.cleanup_error = StreamingSessionStatus.CANCELLED, True, error


def test_an_id_is_free_when_its_last_session_is_released_entirely() -> None:
    table = SessionTable(PipelineGraph(chain()), 8, PipelineTotals())
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
    table = SessionTable(PipelineGraph(chain()), 8, PipelineTotals())
    with pytest.raises(SequenceError):
        table.add("s", (), -1)
    assert table.all() == []
    with pytest.raises(UnknownSessionError, match="there is no session 's'"):
        table.get("s")


def test_ids_that_left_are_not_remembered() -> None:
    table = SessionTable(PipelineGraph(chain()), 8, PipelineTotals())
    epochs = []
    for number in range(100):
        session = table.add(f"s{number}", (), None)
        epochs.append(session.context.session_epoch)
        end(session)
        table.forget(session)
    assert len(table) == 0 and epochs == list(range(1, 101))


def test_only_inputs_by_sequence_are_pushed() -> None:
    graph = Bench(chain(control=True)).graph
    check_artifacts(graph, ["x"])
    for wrong, message in (
        ([], r"no inputs given; expected some of \['x'\]"),
        (["steer"], "'steer' is a control: use set_control"),
        (["x", "y"], "'y' is not an input of the pipeline"),
    ):
        with pytest.raises(ValueError, match=message):
            check_artifacts(graph, wrong)


@pytest.mark.parametrize("wrong", [-1, 1.0, True, "0", None])
def test_sequences_are_counts(wrong: object) -> None:
    session = Bench(chain()).session()
    with pytest.raises(SequenceError, match="must be an integer of 0 or more"):
        check_sequence(session, wrong, ["x"], in_order=True)
    with pytest.raises(SequenceError, match="must be an integer of 0 or more"):
        check_final(session, wrong)


def test_every_input_counts_for_itself() -> None:
    bench = Bench(diamond(2))
    session = bench.session()
    session.inputs = {"x": AcceptedSequences(), "w": AcceptedSequences()}
    for artifact, sequence_id in (("x", 0), ("x", 1), ("w", 0)):
        session.inputs[artifact].add(sequence_id)
    check_sequence(session, 1, ["w"], in_order=True)
    with pytest.raises(SequenceError, match="sequence 1 of 'x' came already; expected 2"):
        check_sequence(session, 1, ["w", "x"], in_order=True)


def test_sequences_are_accepted_once_in_any_order() -> None:
    accepted = AcceptedSequences()
    assert (accepted.next, accepted.newest) == (0, -1)
    for sequence_id, following, newest in ((2, 0, 2), (0, 1, 2), (4, 1, 4), (1, 3, 4), (3, 5, 4), (5, 6, 5)):
        assert sequence_id not in accepted
        accepted.add(sequence_id)
        assert sequence_id in accepted and (accepted.next, accepted.newest) == (following, newest)


def test_room_is_counted_from_what_the_stage_has_not_taken() -> None:
    bench = Bench(chain(2))
    session = bench.session()
    assert has_room(session, bench.graph, 1, ["x"]) and not has_room(session, bench.graph, 2, ["x"])
    bench.push(session, 0)  # encode takes it at once
    assert has_room(session, bench.graph, 2, ["x"]) and not has_room(session, bench.graph, 3, ["x"])


def test_a_final_sequence_overtaken_by_none_is_news() -> None:
    bench = Bench(chain(2))
    session = bench.session()
    bench.push(session, 0)
    bench.push(session, 1)
    assert check_final(session, 1)  # it waits: encode will be told
    session.final = 1
    assert not check_final(session, 1)


def test_a_draining_session_is_not_open() -> None:
    bench = Bench(chain())
    session = bench.session()
    check_open(session)
    bench.scheduler.drain_session(session)
    with pytest.raises(SessionEndedError, match="'s' is being drained"):
        check_open(session)
