import json
from enum import Enum
from pathlib import Path

import pytest
from pydantic import BaseModel, Field, RootModel, field_validator

from realtime_engine.infra.controls import ARROWS_AS_WASD, Axis, Controls, KeyBinding

W, S = KeyBinding("KeyW", "Forward", "Move"), KeyBinding("KeyS", "Back", "Move")


class Style(Enum):
    WARM = "warm"
    COLD = "cold"


class Fields(BaseModel):
    prompt: str = Field("", max_length=20)
    seed: int = Field(7, ge=0)
    style: Style = Style.WARM
    folder: Path = Path("here")


class Required(BaseModel):
    prompt: str


class Aliased(BaseModel):
    prompt: str = Field("", alias="text")


class Invalid(BaseModel):
    seed: int = Field(-1, ge=0, validate_default=True)


class Raising(BaseModel):
    seed: int = Field(0, validate_default=True)

    @field_validator("seed")
    @classmethod
    def check(cls, value: int) -> int:
        raise KeyError(value)


class Rootless(RootModel[int]):
    root: int = 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"keys": "KeyW"}, "keys must be a tuple of KeyBinding, got 'KeyW'"),
        ({"keys": ("KeyW",)}, "keys must hold KeyBinding only, got 'KeyW'"),
        ({"keys": (W, W)}, "keys: 'KeyW' is declared twice"),
        ({"keys": (W,), "aliases": {"ArrowUp": "KeyQ"}}, "aliases: key 'KeyQ' is not declared in keys"),
        ({"keys": (W, S), "aliases": {"KeyS": "KeyW"}}, "aliases: 'KeyS' is itself among the declared keys"),
        ({"keys": (W,), "aliases": {"up!": "KeyW"}}, "aliases must be a KeyboardEvent.code"),
        ({"keys": (W,), "opposing": (("KeyW", "KeyD"),)}, "opposing: key 'KeyD' is not declared in keys; did you mean"),
        ({"keys": (W,), "opposing": (("KeyW",),)}, "opposing: a group needs two or more different keys"),
        ({"opposing": ("KeyW",)}, "opposing must be a tuple of str, got 'KeyW'"),
        ({"axes": (Axis("walk", "KeyS", "KeyW"),)}, "axis 'walk': key 'KeyS' is not declared in keys; there is none"),
        ({"axes": (Axis("a"), Axis("a"))}, "axes: 'a' is declared twice"),
        ({"axes": (Axis("a", stick=("move", "y")),)}, r"stick 'move' is not among sticks \(\)"),
        ({"axes": (Axis("a", gamepad=1),)}, "axis 'a' reads a gamepad: declare gamepad=True"),
        ({"pointer": "captured"}, "pointer must be one of position, lock or None, got 'captured'"),
        ({"wheel": 1}, "wheel must be True or False, got 1"),
        ({"gamepad": None}, "gamepad must be True or False, got None"),
        ({"sticks": ("left stick",)}, "sticks must be a name of letters, digits and underscores"),
        ({"sticks": ("move", "move")}, "sticks: 'move' is declared twice"),
        ({"dead_zone": 1.0}, "dead_zone must be a number from 0 to below 1, got 1.0"),
        ({"dead_zone": float("nan")}, "dead_zone must be a number"),
        ({"fields": dict}, "fields must be a subclass of pydantic.BaseModel"),
        ({"fields": Fields()}, "fields must be a subclass of pydantic.BaseModel"),
        ({"fields": Rootless}, "fields must be a subclass of pydantic.BaseModel with named fields"),
        ({"fields": Required}, "fields: Required.prompt must have a default"),
        ({"fields": Aliased}, "fields: Aliased.prompt has an alias"),
        ({"fields": Invalid}, "fields: Invalid must have valid defaults"),
        ({"fields": Raising}, "fields: Raising must have valid defaults"),
    ],
)
def test_a_wrong_declaration_names_its_field(given, message):
    with pytest.raises(ValueError, match=message):
        Controls(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "a b"}, "name must be a name"),
        ({"negative": "KeyS"}, "negative and positive must both be given"),
        ({"negative": "KeyS", "positive": "?"}, "axis 'a': key must be a KeyboardEvent.code"),
        ({"stick": ("move", "z")}, r"stick must be \(name, 'x'\)"),
        ({"gamepad": 16}, "gamepad must be the index of an axis"),
        ({"gamepad": True}, "gamepad must be the index of an axis"),
    ],
)
def test_a_wrong_axis_names_its_field(given, message):
    with pytest.raises(ValueError, match=message):
        Axis(**{"name": "a", **given})


def test_lists_become_tuples_and_later_changes_are_not_seen():
    keys, aliases = [W, S], {"ArrowUp": "KeyW"}
    controls = Controls(keys=keys, aliases=aliases)
    keys.clear()
    aliases.clear()
    assert controls.keys == (W, S)
    assert dict(controls.aliases) == {"ArrowUp": "KeyW"}


def test_the_keys_of_an_axis_oppose_each_other():
    controls = Controls(keys=(W, S), axes=(Axis("forward", "KeyS", "KeyW"),))
    assert controls.opposing_groups == (("KeyS", "KeyW"),)


def test_describe_is_json_and_holds_the_schema_of_the_fields():
    described = Controls(
        keys=(W, S, KeyBinding("KeyA", "Left"), KeyBinding("KeyD", "Right")), aliases=ARROWS_AS_WASD, fields=Fields
    ).describe()
    assert json.loads(json.dumps(described)) == described
    assert described["fields"]["properties"]["seed"] == {"default": 7, "minimum": 0, "title": "Seed", "type": "integer"}
    assert described["defaults"] == {"prompt": "", "seed": 7, "style": "warm", "folder": "here"}
    assert described["keys"][0] == {"code": "KeyW", "label": "Forward", "group": "Move"}
    assert described["aliases"]["ArrowUp"] == "KeyW"


def test_an_empty_declaration_describes_itself():
    described = Controls().describe()
    assert described["fields"] is None and described["defaults"] == {} and described["keys"] == []
