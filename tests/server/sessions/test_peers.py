import json
from collections.abc import Mapping, Sequence
from typing import Any

from realtime_engine.server.sessions.access import Member, Role
from realtime_engine.server.sessions.peers import ControlConnections


def member(role: Role = Role.OWNER) -> Member:
    return Member(role, None, 0)


def no_greeting(member: Member) -> Sequence[Mapping[str, Any]]:
    return []


def test_a_broadcast_reaches_all_connections_and_the_first_and_last_of_a_member_are_reported() -> None:
    owner, reported = member(), list[tuple[Member, bool]]()
    connections = ControlConnections(lambda who, connected: reported.append((who, connected)), no_greeting)
    received: dict[str, list[str]] = {"a": [], "b": []}
    for name, texts in received.items():
        connections.add(name, texts.append, owner)
    connections.broadcast({"type": "event"})
    assert [json.loads(texts[0]) for texts in received.values()] == [{"type": "event"}] * 2
    connections.remove("a")
    connections.remove("a")
    assert reported == [(owner, True)] and len(connections) == 1
    connections.broadcast({})
    assert len(received["a"]) == 1 and len(received["b"]) == 2
    connections.remove("b")
    connections.remove("unknown")
    assert reported == [(owner, True), (owner, False)]


def test_the_connections_of_members_are_apart() -> None:
    owner, viewer, reported = member(), member(Role.VIEWER), list[tuple[Member, bool]]()
    connections = ControlConnections(lambda who, connected: reported.append((who, connected)), no_greeting)
    to_owner, to_viewer = list[str](), list[str]()
    connections.add("a", to_owner.append, owner)
    connections.add("b", to_viewer.append, viewer)
    assert connections.members == {owner, viewer}
    connections.broadcast({"type": "role"}, viewer)
    assert not to_owner and json.loads(to_viewer[0]) == {"type": "role"}
    connections.remove("a")
    assert reported == [(owner, True), (viewer, True), (owner, False)]


def test_a_connection_is_greeted() -> None:
    greetings = {Role.OWNER: [{"type": "turn"}, {"type": "takeover"}], Role.VIEWER: []}
    connections = ControlConnections(lambda who, connected: None, lambda who: greetings[who.role])
    texts: list[str] = []
    connections.add("a", texts.append, member())
    assert [json.loads(text)["type"] for text in texts] == ["turn", "takeover"]
    connections.add("b", texts.append, member(Role.VIEWER))
    assert len(texts) == 2
