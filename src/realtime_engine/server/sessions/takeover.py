"""Take-over: another client becomes the owner of a session, with the consent of its owner or in the owner's absence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...core.clock import NS_PER_S, Clock
from ...infra.controls import role_message, takeover_message
from ..problems import Problem
from .access import Member, Role, SessionAccess

__all__ = ["TakeOver"]

_PAUSE_NS = 30 * NS_PER_S  # after a refusal, before the same client may ask again


class TakeOver:
    """The requests of clients to become the owner of a session. Belongs to one event loop.

    Args:
        access: the clients of the session.
        send: sends a message to all connections of a client.
        on_transferred: called with the former and the new owner.
        absent_s: how long the owner has to be disconnected before a controller becomes the owner without consent.
        idle_s: the same for an owner that is connected and sends no controls.
        clock: the current time.
    """

    def __init__(
        self,
        access: SessionAccess,
        send: Callable[[Mapping[str, Any], Member], None],
        on_transferred: Callable[[Member, Member], None],
        *,
        absent_s: float,
        idle_s: float,
        clock: Clock,
    ) -> None:
        self._access = access
        self._send = send
        self._on_transferred = on_transferred
        self._absent_ns = round(absent_s * NS_PER_S)
        self._idle_ns = round(idle_s * NS_PER_S)
        self._clock = clock
        self._asking: dict[str, Member] = {}
        self._refused_ns: dict[str, int] = {}
        self._has_left = False

    def pending(self) -> list[dict[str, Any]]:
        """The messages that ask the owner, for a connection that the owner has just opened."""
        return [takeover_message("asked", member.id) for member in self._asking.values()]

    def on_owner_left(self, left: bool) -> None:
        """The page of the owner was closed, or the owner has come back."""
        self._has_left = left

    def ask(self, member: Member) -> bool:
        """A client asks to become the owner; true if it is from now on, false if the owner is asked.

        Raises:
            Problem: the owner has just refused (429).
        """
        if member.role is Role.OWNER:
            return True
        if member.role is Role.CONTROLLER and self._is_owner_absent():
            self._transfer(member)
            return True
        now_ns = self._clock.now_ns()
        if now_ns - self._refused_ns.get(member.id, now_ns - _PAUSE_NS) < _PAUSE_NS:
            raise Problem("too-many", "The owner has just refused. Ask again later.", headers={"Retry-After": "30"})
        if member.id not in self._asking:
            self._asking[member.id] = member
            self._send(takeover_message("asked", member.id), self._access.owner)
        return False

    def answer(self, member_id: str, *, accept: bool) -> None:
        """The owner consents or refuses. No effect if the client is gone or has not asked."""
        member = self._asking.pop(member_id, None)
        if member is None or self._access.get(member_id) is not member:
            return
        if accept:
            self._transfer(member)
        else:
            self._refused_ns[member_id] = self._clock.now_ns()
            self._send(takeover_message("refused", member_id), member)

    def withdraw(self, member: Member) -> None:
        """A client has left: the owner is not asked any more."""
        self._refused_ns.pop(member.id, None)
        if self._asking.pop(member.id, None) is not None:
            self._send(takeover_message("withdrawn", member.id), self._access.owner)

    def _is_owner_absent(self) -> bool:
        owner, now_ns = self._access.owner, self._clock.now_ns()
        if owner.is_connected:
            return now_ns - owner.seen_ns >= self._idle_ns
        return self._has_left or now_ns - owner.seen_ns >= self._absent_ns

    def _transfer(self, member: Member) -> None:
        self._has_left = False
        self._asking.pop(member.id, None)
        former = self._access.transfer(member)
        self._on_transferred(former, member)
        self._send(role_message(former.role.label), former)
        self._send(role_message(member.role.label), member)
        for asking in self._asking.values():
            self._send(takeover_message("asked", asking.id), member)
