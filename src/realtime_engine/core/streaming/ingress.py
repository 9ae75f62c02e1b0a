"""What a session takes in, checked at the call."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .errors import SequenceError, SessionEndedError
from .graph import PipelineGraph
from .session import RUNNING, StreamingSession


def check_open(session: StreamingSession) -> None:
    """``SessionEndedError`` when the session takes nothing more."""
    if session.status is not RUNNING:
        raise SessionEndedError(f"session {session.session_id!r} is {session.status.value}; create it again")
    if session.draining:
        raise SessionEndedError(f"session {session.session_id!r} is being drained")


def check_artifacts(graph: PipelineGraph, artifacts: Collection[str]) -> None:
    """``ValueError`` for anything that is not an input by sequence."""
    if not artifacts:
        raise ValueError(f"no inputs given; expected some of {sorted(graph.inputs)}")
    for artifact in artifacts:
        if artifact in graph.controls:
            raise ValueError(f"{artifact!r} is a control: use set_control")
        if artifact not in graph.inputs:
            raise ValueError(f"{artifact!r} is not an input of the pipeline; expected some of {sorted(graph.inputs)}")


def checked_inputs(graph: PipelineGraph, inputs: Mapping[str, object]) -> dict[str, object]:
    """A copy, so that a mapping of the caller's own is never asked again under a lock. ``ValueError`` as above."""
    if not isinstance(inputs, Mapping):
        raise ValueError(f"inputs must be a mapping of artifacts to values, got {type(inputs).__name__}")
    given = dict(inputs)
    check_artifacts(graph, given)
    return given


def check_sequence(session: StreamingSession, sequence_id: int, artifacts: Collection[str]) -> None:
    """``SequenceError`` unless this is what the session takes next."""
    if isinstance(sequence_id, bool) or not isinstance(sequence_id, int) or sequence_id < 0:
        raise SequenceError(f"sequence_id must be an integer of 0 or more, got {sequence_id!r}")
    where = f"session {session.session_id!r}"
    if session.final is not None and sequence_id > session.final:
        raise SequenceError(f"{where}: sequence {sequence_id} is past its final sequence {session.final}")
    for artifact in artifacts:
        expected = session.next_input[artifact]
        if sequence_id != expected:
            what = "came already" if sequence_id < expected else "leaves a gap"
            raise SequenceError(f"{where}: sequence {sequence_id} of {artifact!r} {what}; expected {expected}")


def check_final(session: StreamingSession, final: int) -> bool:
    """Whether ``final`` is news. ``SequenceError`` for a final sequence that can no longer be one."""
    where = f"session {session.session_id!r}"
    if isinstance(final, bool) or not isinstance(final, int) or final < 0:
        raise SequenceError(f"the final sequence must be an integer of 0 or more, got {final!r}")
    if session.final is not None:
        if final != session.final:
            raise SequenceError(f"{where}: its final sequence is {session.final} already, got {final}")
        return False
    newest = max(session.next_input.values()) - 1
    if final < newest:
        raise SequenceError(f"{where}: sequence {newest} was accepted already, so {final} is not the final one")
    if any(progress.base > final or final in progress.ahead for progress in session.stages):
        raise SequenceError(
            f"{where}: sequence {final} was handed to a stage already, which cannot be told now that it is the last; "
            f"finish before that, or use drain_session"
        )
    return True


def has_room(session: StreamingSession, graph: PipelineGraph, sequence_id: int, artifacts: Collection[str]) -> bool:
    """Whether every edge has a place for the sequence."""
    for artifact in artifacts:
        for target in graph.inputs[artifact]:
            progress = session.stages[target]
            if sequence_id >= progress.base + progress.table.capacities[artifact]:
                return False
    return True
