import itertools
import json

import pytest
from pydantic import BaseModel, Field, field_validator, model_validator

from realtime_engine.infra.controls.fields import FieldValues
from realtime_engine.infra.controls.parsing import MessageRefused


class Fields(BaseModel):
    prompt: str = Field("", max_length=20)
    seed: int = Field(0, ge=0)
    gain: float = 1.0
    pair: tuple[int, int] = (0, 0)

    @field_validator("prompt")
    @classmethod
    def shout(cls, value: str) -> str:
        if value == "crash":
            raise KeyError(value)
        return value + "!"

    @model_validator(mode="after")
    def agree(self) -> "Fields":
        if self.seed == 13 and self.gain == 13:
            raise ValueError("unlucky twice")
        return self


def update(store, values, seq=None):
    store.commit(store.stage(values, seq))


def refused(store, values, seq=None):
    with pytest.raises(MessageRefused) as caught:
        store.stage(values, seq)
    replies = caught.value.replies()
    json.dumps(replies, ensure_ascii=False).encode("utf-8")
    return [(reply["seq"], reply["error"]["code"], reply["error"]["field"]) for reply in replies]


def test_an_update_is_partial_and_the_rest_stays():
    store = FieldValues(Fields)
    update(store, {"prompt": "ice"})
    update(store, {"seed": 3})
    assert store.value == Fields(prompt="ice", seed=3)
    assert store.value.model_fields_set == {"prompt", "seed"}


def test_a_validator_sees_what_came_and_never_its_own_result():
    store = FieldValues(Fields)
    update(store, {"prompt": "ice"})
    update(store, {"gain": 2.0})
    assert store.value.prompt == "ice!"


def test_values_are_read_as_json():
    store = FieldValues(Fields)
    update(store, {"pair": [1, 2]})
    assert store.value.pair == (1, 2)


def test_each_wrong_value_is_named_and_nothing_is_kept():
    store = FieldValues(Fields)
    found = refused(store, {"seed": -1, "gain": "much", "pair": [1, "x"], "prompt": "fine"}, 9)
    assert found == [(9, "bad_field", "seed"), (9, "bad_field", "gain"), (9, "bad_field", "pair.1")]
    assert store.value.model_fields_set == set()


def valid_part(store, values, seq=None):
    staged, faults = store.stage_valid_part(values, seq)
    store.commit(staged)
    return staged.given, [fault.field for fault in faults]


def test_the_valid_part_of_an_update_is_what_is_not_refused():
    store = FieldValues(Fields)
    values = {"seed": -1, "fog": 1, "gain": 2.0, "pair": [1, "x"], "prompt": "fine"}
    given, refused = valid_part(store, values, 9)
    assert (given, refused) == ({"gain": 2.0, "prompt": "fine"}, ["fog", "seed", "pair.1"])
    assert (store.value.gain, store.value.prompt) == (2.0, "fine!")
    assert valid_part(FieldValues(None), {"prompt": 1}) == ({}, ["prompt"])


def test_a_failing_validator_refuses_its_own_field_only():
    assert valid_part(FieldValues(Fields), {"seed": 3, "prompt": "crash"}) == ({"seed": 3}, ["prompt"])


def test_of_fields_that_contradict_each_other_the_first_is_kept():
    assert valid_part(FieldValues(Fields), {"seed": 13, "gain": 13, "prompt": "ice"}) == (
        {"seed": 13, "prompt": "ice"},
        ["gain"],
    )


@pytest.mark.parametrize("value", ["\ud800", "crash"])
def test_whatever_a_value_makes_of_the_model_is_a_refusal(value):
    assert refused(FieldValues(Fields), {"prompt": value}) == [(None, "bad_field", "prompt")]


def test_a_rule_over_several_fields_is_told_with_one_of_those_given():
    store = FieldValues(Fields)
    update(store, {"seed": 13})
    assert refused(store, {"gain": 13}) == [(None, "bad_field", "gain")]


def test_an_unknown_field_is_named_with_what_comes_near():
    with pytest.raises(MessageRefused, match="no such field; did you mean 'prompt'?"):
        FieldValues(Fields).stage({"promt": "ice"})
    assert refused(FieldValues(None), {"prompt": 1}) == [(None, "bad_field", "prompt")]
    assert refused(FieldValues(Fields), {"\ud800": 1}) == [(None, "bad_field", "?")]


def test_each_field_keeps_the_word_of_the_newest_message():
    store = FieldValues(Fields)
    update(store, {"prompt": "new"}, 10)
    update(store, {"prompt": "old", "seed": 4}, 9)
    assert (store.value.prompt, store.value.seed) == ("new!", 4)
    update(store, {"prompt": "again"}, 10)
    assert store.value.prompt == "new!"


def test_a_default_that_is_drawn_is_drawn_once_and_is_not_the_clients_word():
    drawn = itertools.count(41)

    class Drawn(BaseModel):
        seed: int = Field(default_factory=lambda: next(drawn))
        prompt: str = ""

    values = FieldValues(Drawn)
    first = values.value.seed
    values.commit(values.stage({"prompt": "ice"}))
    assert values.value.seed == first
    assert values.value.model_fields_set == {"prompt"}
    values.commit(values.stage({"seed": 7}))
    assert (values.value.seed, values.value.prompt) == (7, "ice")
    assert values.value.model_fields_set == {"seed", "prompt"}


def test_very_many_or_very_long_unknown_names_cost_little(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "realtime_engine.infra.controls.fields.did_you_mean", lambda name, known: asked.append(name) or ""
    )
    assert len(refused(FieldValues(Fields), {f"prompt{index}": 1 for index in range(1000)})) == 8
    refused(FieldValues(Fields), {"x" * 1000: 1})
    assert asked == [f"prompt{index}" for index in range(8)]
