import json

from realtime_engine.server.sessions.peers import ControlConnections


def test_a_broadcast_reaches_all_connections_and_the_first_and_last_are_reported() -> None:
    connected: list[bool] = []
    connections = ControlConnections(connected.append, lambda: None)
    received: dict[str, list[str]] = {"a": [], "b": []}
    for name, texts in received.items():
        connections.add(name, texts.append)
    connections.broadcast({"type": "event"})
    assert [json.loads(texts[0]) for texts in received.values()] == [{"type": "event"}] * 2
    connections.remove("a")
    connections.remove("a")
    assert connected == [True] and len(connections) == 1
    connections.broadcast({})
    assert len(received["a"]) == 1 and len(received["b"]) == 2
    connections.remove("b")
    connections.remove("unknown")
    assert connected == [True, False]


def test_a_connection_is_greeted() -> None:
    greeting: dict[str, object] | None = {"type": "turn"}
    connections = ControlConnections(lambda connected: None, lambda: greeting)
    first: list[str] = []
    connections.add("a", first.append)
    assert [json.loads(text) for text in first] == [{"type": "turn"}]
    greeting = None
    connections.add("b", first.append)
    assert len(first) == 1
