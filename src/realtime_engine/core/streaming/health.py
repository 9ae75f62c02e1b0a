"""A pipeline at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .actor import StreamingActorHealth, StreamingActorState

__all__ = ["StreamingPipelineHealth"]


@dataclass(frozen=True)
class StreamingPipelineHealth:
    """A pipeline at one moment.

    Attributes:
        closed: it was closed, and takes no sessions.
        session_count: sessions that it knows, ended ones among them.
        actors: by stage.
    """

    closed: bool
    session_count: int
    actors: Mapping[str, StreamingActorHealth]

    @property
    def ok(self) -> bool:
        """Whether every stage can work."""
        return not self.closed and all(actor.state is StreamingActorState.RUNNING for actor in self.actors.values())
