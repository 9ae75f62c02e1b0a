import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.infra.controls import MAX_MESSAGE_BYTES, Controls, ControlState
from realtime_engine.infra.controls.parsing import MessageRefused, parse_message, parse_valid_part
from realtime_engine.testing import ManualClock


def controls(**members):
    return {"v": 1, "type": "controls", "seq": 1, **members}


def refusal(message):
    with pytest.raises(MessageRefused) as caught:
        parse_message(message)
    reply = caught.value.replies()[0]
    json.dumps(reply, ensure_ascii=False).encode("utf-8")
    return reply["error"]["code"], reply["error"]["field"], reply["seq"]


@pytest.mark.parametrize(
    "message",
    [
        "",
        "{",
        "[]",
        "7",
        "null",
        '"controls"',
        b"{}",
        None,
        [],
        {"v": {1}},
        {"a": 1, 2: 3j},
    ],
)
def test_what_is_no_json_object_is_a_bad_message(message):
    assert refusal(message) == ("bad_message", None, None)


@pytest.mark.parametrize("version", [None, 0, 2, "1", True, 1.0, [[[]]]])
def test_another_version_is_refused(version):
    assert refusal({"v": version, "type": "ping", "seq": 4}) == ("bad_version", "v", 4)


@pytest.mark.parametrize("number", ["NaN", "1e999", "9223372036854775808", "-9223372036854775809", "9" * 5000])
def test_a_number_that_no_member_takes_is_refused_where_it_stands(number):
    assert refusal(f'{{"v":{number},"type":"ping","seq":4}}') == ("bad_version", "v", 4)
    assert refusal(f'{{"v":1,"type":"ping","seq":{number}}}') == ("bad_message", "seq", None)
    assert refusal(f'{{"v":1,"type":"ping","seq":4,"t":{number}}}') == ("bad_message", "t", 4)
    text = json.dumps(controls(fields={"gain": [0], "fog": 1}, keys=["KeyW"])).replace("[0]", f'[{{"a":{number}}}]')
    assert refusal(text) == ("bad_message", "fields.gain", 1)
    message, (fault,) = parse_valid_part(text)
    assert (message.keys, message.fields) == (["KeyW"], {"fog": 1})
    assert fault.detail.startswith("fields.gain: ") and number[:32] in fault.detail


def test_a_message_with_many_such_numbers_is_refused_as_a_whole():
    text = '{"v":1,"type":"controls","seq":1,"fields":{"gain":[' + "NaN," * 9 + "1]}}"
    assert refusal(text) == ("bad_message", None, None)


@pytest.mark.parametrize("kind", [None, "", "pong", "Controls", 3, ["controls"], {"a": "\ud800"}, "\ud800" * 1000])
def test_an_unknown_type_is_refused(kind):
    assert refusal({"v": 1, "type": kind, "seq": 4}) == ("unknown_type", "type", 4)


@pytest.mark.parametrize(
    ("members", "code", "field"),
    [
        ({"kyes": []}, "bad_message", "kyes"),
        ({"keys": "KeyW"}, "bad_message", "keys"),
        ({"keys": None}, "bad_message", "keys"),
        ({"keys": ["KeyW", 5]}, "bad_message", "keys.1"),
        ({"keys": ["Key W"]}, "bad_message", "keys.0"),
        ({"keys": ["KeyW"] * 33}, "too_large", "keys"),
        ({"t": "now"}, "bad_message", "t"),
        ({"pointer": {"buttons": -1}}, "bad_message", "pointer.buttons"),
        ({"pointer": {"x": True}}, "bad_message", "pointer.x"),
        ({"gamepad": {"axes": [None]}}, "bad_message", "gamepad.axes.0"),
        ({"sticks": {"move": [0.0]}}, "bad_message", "sticks.move"),
        ({"sticks": {"move": [0.0, 0.0, 0.0]}}, "too_large", "sticks.move"),
        ({"fields": []}, "bad_message", "fields"),
        ({"edges": [{"seq": 1, "kind": "key_down"}]}, "bad_message", "edges.0.code"),
        ({"edges": [{"seq": 1, "kind": "jump"}]}, "bad_message", "edges.0"),
        ({"edges": [{"seq": 1, "kind": "wheel", "dx": 0, "dy": 1e6}]}, "bad_message", "edges.0.dy"),
        ({"edges": [{"seq": 1, "kind": "tap", "x": 0, "y": 0, "z": 0}]}, "bad_message", "edges.0.z"),
        ({"edges": [{"seq": n, "kind": "key_up", "code": "A"} for n in range(257)]}, "too_large", "edges"),
    ],
)
def test_a_wrong_member_is_named(members, code, field):
    assert refusal(controls(**members)) == (code, field, 1)


def presented(**members):
    frame = {"epoch": 1, "seq": 2, "index": 0, "presented": 5}
    clock = {"offset": -1.5, "uncertainty": 0}
    return {"v": 1, "type": "presented", "seq": 1, "clock": clock, "frames": [frame], **members}


@pytest.mark.parametrize(
    ("members", "code", "field"),
    [
        ({"frames": []}, "bad_message", "frames"),
        ({"frames": [{}] * 65}, "too_large", "frames"),
        ({"frames": [{"epoch": 1, "seq": 2, "index": 0}]}, "bad_message", "frames.0.presented"),
        ({"frames": [{"epoch": 1, "seq": -2, "index": 0, "presented": 5}]}, "bad_message", "frames.0.seq"),
        ({"frames": [{"epoch": 1, "seq": 2, "index": 0, "presented": -1}]}, "bad_message", "frames.0.presented"),
        ({"frames": [{"epoch": 1, "seq": 2, "index": 0, "presented": 1e16}]}, "bad_message", "frames.0.presented"),
        ({"frames": [{"epoch": 1, "seq": 2, "index": 0, "presented": 5, "press": {"seq": 1}}]}, "bad_message", None),
        ({"clock": None}, "bad_message", "clock"),
        ({"clock": {"offset": 1}}, "bad_message", "clock.uncertainty"),
        ({"clock": {"offset": 1, "uncertainty": -1}}, "bad_message", "clock.uncertainty"),
        ({"viewer": "x" * 65}, "too_large", "viewer"),
        ({"timing": 1}, "bad_message", "timing"),
        ({"keys": []}, "bad_message", "keys"),
    ],
)
def test_a_wrong_acknowledgement_is_refused(members, code, field):
    assert refusal(presented(**members)) == (code, field or "frames.0.press.t", 1)


def test_an_acknowledgement_changes_nothing_that_is_held():
    state = ControlState(Controls(), ManualClock())
    assert state.receive(presented()) == []
    assert state.window().action_id is None


@pytest.mark.parametrize("seq", [-1, 1.5, "1", None, True, 2**53])
def test_a_seq_that_is_none_is_refused_and_not_repeated(seq):
    assert refusal({"v": 1, "type": "blur", "seq": seq}) == ("bad_message", "seq", None)


def test_too_much_text_is_refused_whether_it_counts_in_characters_or_bytes():
    exact = json.dumps(controls(fields={"prompt": ""}))
    room = MAX_MESSAGE_BYTES - len(exact)
    assert parse_message(exact.replace('""', f'"{"x" * room}"')).fields["prompt"] == "x" * room
    assert refusal(exact.replace('""', f'"{"x" * (room + 1)}"')) == ("too_large", None, None)
    assert refusal(exact.replace('""', f'"{"ü" * (room // 2 + 1)}"')) == ("too_large", None, None)


def test_the_text_of_fields_is_limited_by_their_demo():
    fields = {"story": '"' * 100_000, "plot": "\u0001" * 10_000}
    assert parse_message(json.dumps(controls(fields=fields))).fields == fields
    assert parse_message(controls(fields={"story": "ü" * 200_000})).fields["story"] == "ü" * 200_000


@pytest.mark.parametrize("value", [[1] * 40_000, {f"{n}": 1 for n in range(12_000)}, [[[]]] * 12_000, ['"'] * 17_000])
def test_much_structure_is_refused_before_it_is_parsed(value, monkeypatch):
    text = json.dumps(controls(fields={"a": value}))
    monkeypatch.setattr("realtime_engine.infra.controls.parsing._loads", None)
    assert refusal(text) == ("too_large", None, None)


def test_a_long_text_that_is_no_json_is_refused():
    for text in ('"' + '\\"' * 200_000, '{"v": 1, "a": "' + "x" * 100_000, "x" * 100_000):
        assert refusal(text)[0] in ("bad_message", "too_large")


def test_text_that_is_nested_too_deeply_is_refused():
    assert refusal("[" * 60_000)[0] == "too_large"
    deep = '{"v":1,"type":"controls","seq":1,"fields":{"a":' + "[" * 500 + "]" * 500 + "}}"
    assert refusal(deep)[0] in ("too_large", "bad_message")


def test_a_message_with_many_faults_gets_eight_replies():
    with pytest.raises(MessageRefused) as caught:
        parse_message(controls(keys=[5] * 30))
    assert len(caught.value.replies()) == 8


def test_a_mapping_is_read_like_its_text():
    message = controls(keys=["KeyW"], sticks={"move": [0, 1]})
    assert parse_message(message) == parse_message(json.dumps(message))


KEYS = ["KeyW", "Space"]
TAP = {"seq": 7, "kind": "tap", "x": 0.5, "y": 0.5}


@pytest.mark.parametrize(
    ("members", "left", "field"),
    [
        ({"kyes": []}, {}, "kyes"),
        ({"t": "now"}, {}, "t"),
        ({"pointer": {"x": None, "y": None, "buttons": 1}}, {}, "pointer.x"),
        ({"pointer": {"x": 0.25, "pressure": 0.5}}, {"pointer": {"x": 0.25}}, "pointer.pressure"),
        ({"gamepad": {"axes": [None]}}, {}, "gamepad.axes.0"),
        ({"gamepad": {"axes": [0.5], "touches": []}}, {"gamepad": {"axes": [0.5]}}, "gamepad.touches"),
        ({"sticks": {"move": [0.0]}}, {}, "sticks.move"),
        ({"fields": []}, {}, "fields"),
        ({"fields": {"": 1, "fog": 2}}, {"fields": {"fog": 2}}, "fields."),
        ({"edges": {}}, {}, "edges"),
        ({"edges": [TAP, {"seq": 8, "kind": "swipe"}]}, {"edges": [TAP]}, "edges.1"),
        ({"edges": [{"seq": 8, "kind": "button_down", "button": 5}, TAP]}, {"edges": [TAP]}, "edges.0.button"),
        ({"edges": [{"seq": 8, "kind": "wheel", "dx": None, "dy": 1}, TAP]}, {"edges": [TAP]}, "edges.0.dx"),
        ({"edges": [{**TAP, "tap": 1}]}, {"edges": [TAP]}, "edges.0.tap"),
    ],
)
def test_only_the_invalid_part_of_a_controls_message_is_left_out(members, left, field):
    message, faults = parse_valid_part(controls(keys=KEYS, **members))
    assert message == parse_message(controls(keys=KEYS, **left))
    assert message.model_fields_set == parse_message(controls(keys=KEYS, **left)).model_fields_set
    assert faults[0].field == field


def test_several_invalid_parts_are_left_out_and_each_is_named():
    message, faults = parse_valid_part(controls(keys=KEYS, pointer=5, sticks=5, edges=[5, TAP, 6]))
    assert message == parse_message(controls(keys=KEYS, edges=[TAP]))
    assert {fault.field for fault in faults} == {"pointer", "sticks", "edges.0", "edges.2"}


@pytest.mark.parametrize("members", [{"seq": None}, {"v": 2}, {"type": "control"}])
def test_a_controls_message_without_a_valid_header_is_refused_as_a_whole(members):
    with pytest.raises(MessageRefused):
        parse_valid_part(controls(keys=KEYS) | members)


def test_further_axes_and_buttons_of_a_gamepad_are_ignored():
    gamepad = parse_message(controls(gamepad={"axes": [0.5] * 20, "buttons": [1] * 40})).gamepad
    assert (len(gamepad.axes), len(gamepad.buttons)) == (16, 32)


def test_further_buttons_of_a_pointer_are_ignored():
    assert parse_message(controls(pointer={"buttons": 32 + 1})).pointer.buttons == 1


def test_places_in_the_picture_are_clamped():
    assert parse_message(controls(pointer={"x": -0.01, "y": 1.5})).pointer.model_dump() == {
        "buttons": 0,
        "x": 0,
        "y": 1,
    }


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
members = st.dictionaries(
    st.sampled_from(["v", "type", "seq", "t", "keys", "pointer", "gamepad", "sticks", "fields", "edges"]), json_values
)


@given(st.one_of(st.text(), json_values, members.map(lambda given: {**controls(), **given})))
def test_nothing_but_a_refusal_comes_out_of_reading(message):
    try:
        parse_valid_part(message)
        parse_message(message)
    except MessageRefused as refused:
        assert 1 <= len(refused.replies()) <= 8
        json.dumps(refused.replies(), ensure_ascii=False, allow_nan=False).encode("utf-8")
