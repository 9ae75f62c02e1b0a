"""ControlState beside a model that keeps the whole history and searches it."""

import json
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from realtime_engine.infra.controls import Axis, Controls, ControlState, KeyBinding
from realtime_engine.testing import ManualClock

CODES = ("KeyW", "KeyS", "KeyA")
ALIASES = {"ArrowUp": "KeyW"}
HOLD_NS = 2_000_000_000


class Fields(BaseModel):
    prompt: str = Field("", max_length=3)
    seed: int = Field(0, ge=0)


CONTROLS = Controls(
    keys=tuple(KeyBinding(code, code) for code in CODES),
    aliases=ALIASES,
    axes=(Axis("forward", "KeyS", "KeyW"),),
    pointer="position",
    fields=Fields,
)


@dataclass
class History:
    """All that has happened, in order; every question is answered by a search."""

    told: list = field(default_factory=list)  # (device or field, seq, value), or "release"
    edges: list = field(default_factory=list)
    heard_ns: int = 0
    newest: int | None = None

    def word(self, about, rest):
        tells = [(place, tell) for place, tell in enumerate(self.told) if tell != "release" and tell[0] == about]
        if not tells:
            return rest
        place, (_, _, value) = max(tells, key=lambda entry: (entry[1][1], -entry[0]))
        released = about in ("keys", "pointer") and "release" in self.told[place:]
        return rest if released else value

    def silence(self, now_ns):
        if now_ns >= self.heard_ns + HOLD_NS and (self.word("keys", []) or self.word("pointer", 0)):
            self.told.append("release")

    def message(self, message, now_ns):
        fields = message.get("fields", {})
        self.silence(now_ns)
        self.heard_ns = now_ns
        if message["type"] == "ping":
            return
        seq = message["seq"]
        self.newest = seq if self.newest is None else max(self.newest, seq)
        for edge in message.get("edges", ()):
            if edge["seq"] not in [known["seq"] for known in self.edges]:
                self.edges.append(edge)
        if message["type"] == "blur":
            self.told += [("keys", seq, []), ("pointer", seq, 0)]
        if "keys" in message:
            self.told.append(("keys", seq, message["keys"]))
        if "pointer" in message:
            self.told.append(("pointer", seq, message["pointer"]["buttons"]))
        self.told += [(name, seq, value) for name, value in fields.items() if not self.is_bad(name, value)]

    def is_bad(self, name, value):
        return len(value) > 3 if name == "prompt" else value < 0

    def held(self, code):
        names = [code, *(alias for alias, target in ALIASES.items() if target == code)]
        pressed = [place for place, key in enumerate(self.word("keys", [])) if key in names]
        return max(pressed, default=-1)

    def keys(self):
        held = sorted((code for code in CODES if self.held(code) >= 0), key=self.held)
        if "KeyW" in held and "KeyS" in held:
            held.remove("KeyW" if self.held("KeyW") < self.held("KeyS") else "KeyS")
        return tuple(held)


seqs = st.integers(0, 5)
edges = st.builds(lambda seq: {"seq": seq, "kind": "key_down", "code": "KeyA"}, st.integers(0, 40))
members = st.fixed_dictionaries(
    {},
    optional={
        "keys": st.builds(
            lambda order, count: order[:count],
            st.permutations(["KeyW", "KeyS", "ArrowUp", "KeyA", "KeyQ"]),
            st.integers(0, 5),
        ),
        "pointer": st.builds(lambda buttons: {"buttons": buttons}, st.integers(0, 3)),
        "fields": st.fixed_dictionaries(
            {}, optional={"prompt": st.sampled_from(["a", "abc", "long"]), "seed": st.integers(-1, 3)}
        ),
        "edges": st.lists(edges, max_size=4),
    },
)
messages = st.one_of(
    st.builds(lambda seq, given: {"v": 1, "type": "controls", "seq": seq, **given}, seqs, members),
    st.builds(lambda kind, seq: {"v": 1, "type": kind, "seq": seq}, st.sampled_from(["blur", "ping"]), seqs),
)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("send"), messages),
        st.tuples(st.just("wait"), st.integers(1, 3).map(lambda count: count * HOLD_NS // 2)),
        st.tuples(st.sampled_from(["release", "take"]), st.none()),
    ),
    min_size=4,
    max_size=25,
)


@given(operations)
def test_the_window_and_the_edges_are_those_of_the_history(operations):
    clock, history = ManualClock(), History()
    state = ControlState(CONTROLS, clock)
    taken = []
    for operation, argument in operations:
        if operation == "send":
            state.receive(json.dumps(argument))
            history.message(argument, clock.now_ns())
        elif operation == "wait":
            clock.advance_ns(argument)
        elif operation == "release":
            state.release_all()
            history.told.append("release")
        else:
            took = [edge["seq"] for edge in state.take_edges() if edge["seq"] is not None]
            assert took == sorted(took)
            taken += took
        history.silence(clock.now_ns())
        assert_same(state, history)
    taken += [edge["seq"] for edge in state.take_edges() if edge["seq"] is not None]
    assert sorted(taken) == sorted(edge["seq"] for edge in history.edges)


def assert_same(state, history):
    window = state.window()
    assert window.keys == history.keys()
    assert window.pointer.buttons == history.word("pointer", 0)
    assert window.fields == Fields(prompt=history.word("prompt", ""), seed=history.word("seed", 0))
    assert window.action_id == history.newest
    holds = bool(window.keys or window.pointer.buttons)
    assert state.next_expiry_ns == (history.heard_ns + HOLD_NS if holds else None)


wire_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["KeyW", "a", "\ud800", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["seq", "x", "dx"]), inner, max_size=3),
    max_leaves=6,
)
spoilt = st.builds(
    lambda message, spoil: {**message, **spoil},
    messages,
    st.dictionaries(
        st.sampled_from(["v", "type", "seq", "t", "keys", "pointer", "sticks", "fields", "edges"]), wire_values
    ),
)


@given(st.lists(st.one_of(spoilt, spoilt.map(json.dumps), st.text(max_size=30)), max_size=8))
def test_whatever_is_refused_gets_an_answer_and_the_part_it_names_changes_nothing(sent):
    state = ControlState(CONTROLS, ManualClock())
    state.receive({"v": 1, "type": "controls", "seq": 0, "keys": ["KeyW"], "fields": {"prompt": "a"}})
    for message in sent:
        before = state.window()
        replies = state.receive(message)
        json.dumps(replies, ensure_ascii=False, allow_nan=False).encode("utf-8")
        errors = [reply["error"] for reply in replies if reply["type"] == "error"]
        named = {(error["field"] or "").split(".")[0] for error in errors}
        if named & {"", "v", "type", "seq"} and not any(error["code"] == "bad_field" for error in errors):
            assert state.window() == before
        assert "keys" not in named or state.window().keys == before.keys
        assert "pointer" not in named or state.window().pointer.buttons == before.pointer.buttons
