"""Access to one session: its owner, invitations, and the viewers who have joined by them. No timers."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from ...core.clock import NS_PER_S, Clock
from ...core.errors import RealtimeEngineError
from ..security import same_secret

__all__ = ["Invitation", "InvitationOver", "Member", "Role", "SessionAccess"]

_MAX_INVITATIONS = 64
_MAX_MEMBERS = 1024


class Role(IntEnum):
    """What a client may do; each role includes those below it."""

    VIEWER = 1
    CONTROLLER = 2
    OWNER = 3

    @property
    def label(self) -> str:
        """The name in messages."""
        return self.name.lower()


class InvitationOver(RealtimeEngineError):
    """An invitation is used up, expired or revoked; or there are too many."""


@dataclass(eq=False)
class Invitation:
    """A link by which clients join a session.

    Attributes:
        role: the role of those who join.
        secret: what the link contains.
        expires_ns: its end, in monotonic nanoseconds; ``None`` if it ends with the session.
        uses_left: how many clients may still join; ``None``: any number.
        id: identifies it to the owner.
    """

    role: Role
    secret: str = field(repr=False)
    expires_ns: int | None
    uses_left: int | None
    id: str = field(default_factory=lambda: secrets.token_urlsafe(9))


@dataclass(eq=False)
class Member:
    """A client of a session: the one that has created it, or one that has joined.

    Attributes:
        role: what it may do.
        invitation: by which it has joined; ``None`` for the one that has created the session.
        joined_ns: when it has joined, in monotonic nanoseconds.
        seen_ns: when it last sent a control message or was disconnected, in monotonic nanoseconds.
        slot: its slot among the controllers; ``None`` if it has none.
        token: the secret that it presents.
        id: identifies it to the owner.
        closers: functions that close its connections, by connection.
    """

    role: Role
    invitation: Invitation | None
    joined_ns: int
    seen_ns: int = 0
    slot: int | None = None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    id: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    closers: dict[object, Callable[[], object]] = field(default_factory=dict)

    @property
    def is_connected(self) -> bool:
        """Whether it has a connection of any kind."""
        return bool(self.closers)

    @property
    def frame_slot(self) -> int:
        """The slot whose newest action the frames sent to it name; -1 without a slot, so that they name none."""
        return -1 if self.slot is None else self.slot

    @contextlib.contextmanager
    def connection(self) -> Iterator[asyncio.Event]:
        """An open connection; the event is set when the access of the member is revoked."""
        revoked = asyncio.Event()
        self.closers[revoked] = revoked.set
        try:
            yield revoked
        finally:
            self.closers.pop(revoked, None)

    def close(self) -> None:
        """Close all connections."""
        for close in tuple(self.closers.values()):
            close()


class SessionAccess:
    """Who has access to a session.

    Args:
        session_id: the session.
        clock: the current time.

    Attributes:
        creator: the client that has created the session, its owner at first.
    """

    def __init__(self, session_id: str, clock: Clock) -> None:
        now_ns = clock.now_ns()
        self.creator = Member(Role.OWNER, None, now_ns, now_ns, slot=0)
        self._session_id = session_id
        self._clock = clock
        self._public: Invitation | None = None
        self._invitations: dict[str, Invitation] = {}
        self._members: dict[str, Member] = {self.creator.id: self.creator}

    @property
    def invitations(self) -> Sequence[Invitation]:
        """The invitations that were not revoked, oldest first."""
        return tuple(self._invitations.values())

    @property
    def members(self) -> Sequence[Member]:
        """All clients, in the order of joining."""
        return tuple(self._members.values())

    @property
    def owner(self) -> Member:
        """The client that owns the session."""
        return next(member for member in self._members.values() if member.role is Role.OWNER)

    def get(self, member_id: str) -> Member | None:
        """The client with this id; ``None`` if there is none."""
        return self._members.get(member_id)

    def member_of(self, token: str | None) -> Member | None:
        """The client with this token; ``None`` if it gives no access."""
        for member in self._members.values():
            if same_secret(token, member.token):
                return member
        return None

    def invite(self, role: Role, expires_s: float | None, uses: int | None) -> Invitation:
        """Make an invitation.

        Raises:
            InvitationOver: the session has as many as it may have.
        """
        if len(self._invitations) >= _MAX_INVITATIONS:
            raise InvitationOver(f"a session has at most {_MAX_INVITATIONS} invitations; revoke one")
        expires_ns = None if expires_s is None else self._clock.now_ns() + round(expires_s * NS_PER_S)
        secret = f"{self._session_id}.{secrets.token_urlsafe(18)}"
        invitation = Invitation(role, secret, expires_ns, uses)
        self._invitations[invitation.id] = invitation
        return invitation

    def public_invitation(self) -> Invitation:
        """The invitation for clients that choose the session in the lobby.

        Raises:
            InvitationOver: the owner has revoked it.
        """
        if self._public is None:
            self._public = self.invite(Role.VIEWER, None, None)
        if self._public.id not in self._invitations:
            raise InvitationOver("the owner of the session does not share it")
        return self._public

    def find(self, secret: str) -> Invitation | None:
        """The invitation with this secret, unless it was revoked."""
        for invitation in self._invitations.values():
            if same_secret(secret, invitation.secret):
                return invitation
        return None

    def join(self, invitation: Invitation) -> Member:
        """Join by an invitation.

        Raises:
            InvitationOver: it has expired, it is used up, or the session has as many members as it may have.
        """
        if invitation.expires_ns is not None and self._clock.now_ns() >= invitation.expires_ns:
            raise InvitationOver("the invitation has expired")
        if invitation.uses_left == 0:
            raise InvitationOver("the invitation has been used as often as it may be")
        if len(self._members) >= _MAX_MEMBERS:
            raise InvitationOver(f"at most {_MAX_MEMBERS} clients may join a session")
        if invitation.uses_left is not None:
            invitation.uses_left -= 1
        now_ns = self._clock.now_ns()
        member = Member(invitation.role, invitation, now_ns, now_ns)
        self._members[member.id] = member
        return member

    def transfer(self, member: Member) -> Member:
        """Make a member the owner; returns the former owner, who is a controller from now on."""
        former = self.owner
        former.role, member.role = Role.CONTROLLER, Role.OWNER
        return former

    def revoke(self, invitation_id: str) -> list[Member]:
        """Revoke an invitation, and remove and return those who have joined by it. Idempotent.

        A client that owns the session by now stays.
        """
        invitation = self._invitations.pop(invitation_id, None)
        if invitation is None:
            return []
        removed = [
            member for member in self.members if member.invitation is invitation and member.role is not Role.OWNER
        ]
        for member in removed:
            del self._members[member.id]
            member.close()
        return removed
