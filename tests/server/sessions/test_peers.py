import json

from realtime_engine.server.sessions.peers import ControlConnections


def test_all_are_told_and_only_the_last_to_leave_counts() -> None:
    left: list[str] = []
    clients = ControlConnections(lambda: left.append("last"))
    heard: dict[str, list[str]] = {"a": [], "b": []}
    for name, texts in heard.items():
        clients.join(name, texts.append)
    clients.tell({"type": "event"})
    assert [json.loads(texts[0]) for texts in heard.values()] == [{"type": "event"}] * 2
    clients.leave("a")
    clients.leave("a")
    assert left == [] and len(clients) == 1
    clients.tell({})
    assert len(heard["a"]) == 1 and len(heard["b"]) == 2
    clients.leave("b")
    clients.leave("nobody")
    assert left == ["last"]
