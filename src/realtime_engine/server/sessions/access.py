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

__all__ = ["Invitation", "InvitationOver", "Member", "Role", "SessionAccess", "connection_of"]

_MAX_INVITATIONS = 64
_MAX_MEMBERS = 1024


class Role(IntEnum):
    """What a client may do; each role includes those below it."""

    VIEWER = 1
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
    """A client that has joined a session.

    Attributes:
        role: what it may do.
        invitation: by which it has joined.
        joined_ns: when it has joined, in monotonic nanoseconds.
        token: the secret that it presents.
        id: identifies it to the owner.
        closers: functions that close its connections, by connection.
    """

    role: Role
    invitation: Invitation
    joined_ns: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    id: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    closers: dict[object, Callable[[], object]] = field(default_factory=dict)

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
        owner_token: the secret of the owner.
    """

    def __init__(self, session_id: str, clock: Clock) -> None:
        self.owner_token = secrets.token_urlsafe(24)
        self._session_id = session_id
        self._clock = clock
        self._public: Invitation | None = None
        self._invitations: dict[str, Invitation] = {}
        self._members: dict[str, Member] = {}

    @property
    def invitations(self) -> Sequence[Invitation]:
        """The invitations that were not revoked, oldest first."""
        return tuple(self._invitations.values())

    @property
    def members(self) -> Sequence[Member]:
        """Those who have joined, in the order of joining."""
        return tuple(self._members.values())

    def role_of(self, token: str | None) -> Role | None:
        """The role that a token gives; ``None`` if it gives no access."""
        if same_secret(token, self.owner_token):
            return Role.OWNER
        member = self.member_of(token)
        return None if member is None else member.role

    def member_of(self, token: str | None) -> Member | None:
        """The member with this token; ``None`` for the owner and for others."""
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
        member = Member(invitation.role, invitation, self._clock.now_ns())
        self._members[member.id] = member
        return member

    def revoke(self, invitation_id: str) -> None:
        """Revoke an invitation, and remove those who have joined by it. Idempotent."""
        invitation = self._invitations.pop(invitation_id, None)
        for member in self.members:
            if member.invitation is invitation:
                del self._members[member.id]
                member.close()


def connection_of(member: Member | None) -> contextlib.AbstractContextManager[asyncio.Event]:
    """As :meth:`Member.connection`; the access of an owner, which is no member, is never revoked."""
    return contextlib.nullcontext(asyncio.Event()) if member is None else member.connection()
