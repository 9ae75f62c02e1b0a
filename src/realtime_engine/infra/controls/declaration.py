"""The control schema of a demo: keys, axes, pointer, gamepad, touch sticks and typed fields."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from pydantic import BaseModel, RootModel

from .devices import POINTER_USES, KeyBinding, PointerUse, check_code
from .schema import PROTOCOL_VERSION

HOLD_TIMEOUT_S = 2.0
MergePolicy: TypeAlias = Literal["last", "sum", "vote", "all"]
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Axis:
    """A named value from -1 to 1, driven by keys, a touch stick and a gamepad together.

    Attributes:
        name: the argument of :meth:`ControlWindow.axis`.
        negative, positive: key codes for -1 and 1. If both are held, the one pressed last counts.
        stick: name of a touch stick, and ``"x"`` or ``"y"``.
        gamepad: index of a gamepad axis in the W3C standard mapping (0 and 1: left stick, 2 and 3: right stick).
        invert: negate stick and gamepad, whose positive directions are right and *down*.

    Raises:
        ValueError: a field is invalid; the message names it.
    """

    name: str
    negative: str | None = None
    positive: str | None = None
    stick: tuple[str, Literal["x", "y"]] | None = None
    gamepad: int | None = None
    invert: bool = False

    def __post_init__(self) -> None:
        _check_name("name", self.name)
        if (self.negative is None) != (self.positive is None):
            raise ValueError(f"axis {self.name!r}: negative and positive must both be given, or neither")
        for key in self.keys:
            check_code(f"axis {self.name!r}: key", key)
        stick = self.stick
        if stick is not None and not (isinstance(stick, tuple) and len(stick) == 2 and stick[1] in ("x", "y")):
            raise ValueError(f"axis {self.name!r}: stick must be (name, 'x') or (name, 'y'), got {stick!r}")
        index = self.gamepad
        if index is not None and (not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < 16):
            raise ValueError(f"axis {self.name!r}: gamepad must be the index of an axis, 0 to 15, got {index!r}")

    @property
    def keys(self) -> tuple[str, ...]:
        """``(negative, positive)``, or empty."""
        return () if self.negative is None or self.positive is None else (self.negative, self.positive)


@dataclass(frozen=True)
class Controls:
    """The controls that a demo reads. Input that is not declared is discarded.

    Attributes:
        keys: the keys, in the order of the legend.
        aliases: maps a further key to the declared key that it stands for, as in :data:`ARROWS_AS_WASD`.
        opposing: groups of keys. Of the held keys of a group, only the one pressed last counts. The two keys of an
            axis always form such a group.
        axes: named values that several devices drive.
        pointer: ``"position"`` reads the position in the picture; ``"lock"`` captures the pointer for mouse look.
        wheel, gamepad: whether they are read.
        sticks: names of the touch sticks that the page shows.
        dead_zone: fraction of a stick's travel, 0 to below 1, that counts as its center.
        fields: pydantic model of the typed fields (prompt, seed, sliders). Every field has a default.
        merge: how the devices of several clients that control one session become one window:

            - ``"last"``: the client whose input changed last among those that hold something;
            - ``"sum"``: a key is held if a client holds it, and an axis is the limited sum over the clients;
            - ``"vote"``: of keys that exclude each other, the one that most clients hold, and none in a tie; any other
              key if at least half of the clients that hold a key hold it; of analog values the mean;
            - ``"all"``: as ``"last"``; the demo reads ``window.controllers``.

            The movements of pointers and wheels add up, the newest change of a field counts, and the edges of all
            clients are passed on, in each case.

    Raises:
        ValueError: a field is invalid; the message names it, the value and what is expected.
    """

    keys: tuple[KeyBinding, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    opposing: tuple[tuple[str, ...], ...] = ()
    axes: tuple[Axis, ...] = ()
    pointer: PointerUse | None = None
    wheel: bool = False
    gamepad: bool = False
    sticks: tuple[str, ...] = ()
    dead_zone: float = 0.12
    fields: type[BaseModel] | None = None
    merge: MergePolicy = "last"

    def __post_init__(self) -> None:
        self._set("keys", _tuple_of("keys", self.keys, KeyBinding))
        self._set("axes", _tuple_of("axes", self.axes, Axis))
        self._set("sticks", _tuple_of("sticks", self.sticks, str))
        self._set("opposing", tuple(_tuple_of("opposing", group, str) for group in self.opposing))
        self._set("aliases", MappingProxyType(dict(self.aliases)))
        _check_unique("keys", [key.code for key in self.keys])
        _check_unique("axes", [axis.name for axis in self.axes])
        _check_unique("sticks", self.sticks)
        self._check_devices()
        self._check_keys()
        self._check_axes()
        if self.fields is not None:
            _check_fields(self.fields)

    @cached_property
    def codes(self) -> frozenset[str]:
        """The declared keys."""
        return frozenset(key.code for key in self.keys)

    @cached_property
    def opposing_groups(self) -> tuple[tuple[str, ...], ...]:
        """``opposing`` and the keys of each axis."""
        return self.opposing + tuple(axis.keys for axis in self.axes if axis.keys)

    def default_fields(self) -> BaseModel | None:
        """The typed fields with their default values; ``None`` without fields."""
        return None if self.fields is None else self.fields()

    def describe(self) -> dict[str, Any]:
        """The schema as JSON, from which the page generates its controls; docs/protocol.md lists the members."""
        defaults = self.default_fields()
        return {
            "v": PROTOCOL_VERSION,
            "keys": [asdict(key) for key in self.keys],
            "aliases": dict(self.aliases),
            "opposing": [list(group) for group in self.opposing_groups],
            "axes": [_described(axis) for axis in self.axes],
            "pointer": self.pointer,
            "wheel": self.wheel,
            "gamepad": self.gamepad,
            "sticks": list(self.sticks),
            "dead_zone": self.dead_zone,
            "merge": self.merge,
            "hold_timeout_s": HOLD_TIMEOUT_S,
            "fields": None if self.fields is None else self.fields.model_json_schema(),
            "defaults": {} if defaults is None else json.loads(defaults.model_dump_json()),
        }

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_devices(self) -> None:
        if self.pointer is not None and self.pointer not in POINTER_USES:
            raise ValueError(f"pointer must be one of {', '.join(POINTER_USES)} or None, got {self.pointer!r}")
        if self.merge not in get_args(MergePolicy):
            raise ValueError(f"merge must be one of {', '.join(get_args(MergePolicy))}, got {self.merge!r}")
        for name in ("wheel", "gamepad"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        for stick in self.sticks:
            _check_name("sticks", stick)
        zone = self.dead_zone
        if not isinstance(zone, (int, float)) or isinstance(zone, bool) or not (math.isfinite(zone) and 0 <= zone < 1):
            raise ValueError(f"dead_zone must be a number from 0 to below 1, got {zone!r}")

    def _check_keys(self) -> None:
        for alias, code in self.aliases.items():
            check_code("aliases", alias)
            self.check_declared("aliases", code)
            if alias in self.codes:
                raise ValueError(f"aliases: {alias!r} is itself among the declared keys; leave one of the two out")
        for group in self.opposing:
            if len(set(group)) < 2 or len(set(group)) < len(group):
                raise ValueError(f"opposing: a group needs two or more different keys, got {group!r}")
            for code in group:
                self.check_declared("opposing", code)

    def _check_axes(self) -> None:
        for axis in self.axes:
            for code in axis.keys:
                self.check_declared(f"axis {axis.name!r}", code)
            if axis.stick is not None and axis.stick[0] not in self.sticks:
                raise ValueError(f"axis {axis.name!r}: stick {axis.stick[0]!r} is not among sticks {self.sticks!r}")
            if axis.gamepad is not None and not self.gamepad:
                raise ValueError(f"axis {axis.name!r} reads a gamepad: declare gamepad=True")

    def check_declared(self, where: str, code: str) -> None:
        """Raise ValueError, naming ``where``, unless ``code`` is a declared key."""
        if code not in self.codes:
            raise ValueError(f"{where}: key {code!r} is not declared in keys{did_you_mean(code, self.codes)}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` with the closest of ``known``; without a close match, all of ``known``."""
    choices = sorted(known)
    near = difflib.get_close_matches(word, choices, n=3, cutoff=0.6)
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    return f"; there is {', '.join(choices)}" if choices else "; there is none"


def _described(axis: Axis) -> dict[str, Any]:
    return {**asdict(axis), "stick": None if axis.stick is None else list(axis.stick)}


def _tuple_of(name: str, values: Iterable[_Item], kind: type[_Item]) -> tuple[_Item, ...]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ValueError(f"{name} must be a tuple of {kind.__name__}, got {values!r}")
    items = tuple(values)
    for item in items:
        if not isinstance(item, kind):
            raise ValueError(f"{name} must hold {kind.__name__} only, got {item!r}")
    return items


def _check_name(field_name: str, name: object) -> None:
    if not isinstance(name, str) or not name.isidentifier() or len(name) > 64:
        raise ValueError(f"{field_name} must be a name of letters, digits and underscores, got {name!r}")


def _check_unique(name: str, values: Iterable[str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"{name}: {value!r} is declared twice")
        seen.add(value)


def _check_fields(model: object) -> None:
    if not (isinstance(model, type) and issubclass(model, BaseModel)) or issubclass(model, RootModel):
        raise ValueError(f"fields must be a subclass of pydantic.BaseModel with named fields, got {model!r}")
    for name, info in model.model_fields.items():
        if info.is_required():
            raise ValueError(
                f"fields: {model.__name__}.{name} must have a default, which counts until a client sets the field; "
                "name it in required_context too if each session has to set it"
            )
        if info.alias is not None or info.validation_alias is not None or info.serialization_alias is not None:
            raise ValueError(f"fields: {model.__name__}.{name} has an alias; aliases are not supported")
    try:
        model().model_dump_json()
        model.model_json_schema()
    except Exception as error:  # a validator or serialiser of the demo may raise anything
        raise ValueError(f"fields: {model.__name__} must have valid defaults and a JSON Schema: {error}") from error
