"""Typed fields: what clients set, checked against the demo's pydantic model."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from ...core.clock import MONOTONIC
from ...core.loglimit import LogLimiter
from .declaration import did_you_mean
from .parsing import MessageRefused, Problem

_log = LogLimiter(logging.getLogger(__name__), MONOTONIC)

_MAX_PROBLEMS = 8
_MAX_NAME = 64  # a longer one comes near no other


class StagedFields(NamedTuple):
    """A checked update that is not in force yet."""

    given: dict[str, Any]
    value: BaseModel | None
    seq: int | None


class FieldValues:
    """The newest word on each field, and the model instance that they make together.

    Args:
        drawn: what default factories have made in another run, as of the attribute; ``None`` lets them make it anew.

    Attributes:
        given: what clients have set, as it came.
        drawn: what default factories have made, as JSON values.
    """

    def __init__(self, model: type[BaseModel] | None, drawn: Mapping[str, Any] | None = None) -> None:
        self._model = model
        self.given: dict[str, Any] = {}  # as they came: a validator may not take back what it has made
        self._told_at: dict[str, int] = {}
        self.value: BaseModel | None = None if model is None else model()
        self.drawn = _drawn_defaults(self.value)
        if drawn:
            self.drawn |= {name: value for name, value in drawn.items() if name in self.drawn}
            self.value = self._made_of({})

    def stage(self, values: Mapping[str, Any], seq: int | None = None) -> StagedFields:
        """Check an update as a whole; fields that a message newer than ``seq`` has set are left alone.

        Raises:
            MessageRefused: with a ``bad_field`` for each value that the model refuses, eight at most.
        """
        self._check_names(values, seq)
        given = {name: value for name, value in values.items() if self._is_news(name, seq)}
        return StagedFields(given, self._validate(given, seq), seq)

    def accept(self, staged: StagedFields) -> None:
        """Put an update in force."""
        self.given.update(staged.given)
        self.value = staged.value
        if staged.seq is not None:
            self._told_at.update(dict.fromkeys(staged.given, staged.seq))

    def _is_news(self, name: str, seq: int | None) -> bool:
        return seq is None or seq > self._told_at.get(name, -1)

    def _check_names(self, values: Mapping[str, Any], seq: int | None) -> None:
        known = () if self._model is None else tuple(self._model.model_fields)
        unknown = list(islice((str(name) for name in values if name not in known), _MAX_PROBLEMS))
        if unknown:
            raise MessageRefused(*(_no_such_field(name, known) for name in unknown), seq=seq)

    def _validate(self, given: Mapping[str, Any], seq: int | None) -> BaseModel | None:
        if self._model is None or not given:
            return self.value
        try:
            return self._made_of({**self.given, **given})
        except ValidationError as error:
            raise MessageRefused(*_problems(error, given), seq=seq) from None
        except Exception as error:  # a validator of the demo may raise anything
            _log.error("a validator of the demo's fields failed", error)
            detail = f"could not be checked: {type(error).__name__}"
            raise MessageRefused(Problem("bad_field", detail, next(iter(given))), seq=seq) from None

    def _made_of(self, told: Mapping[str, Any]) -> BaseModel:
        assert self._model is not None
        value = self._model.model_validate_json(json.dumps({**self.drawn, **told}))
        value.model_fields_set.intersection_update(told)
        return value


def _drawn_defaults(value: BaseModel | None) -> dict[str, Any]:
    """What default factories have made, which must not be drawn anew with each update."""
    if value is None:
        return {}
    names = {name for name, field in type(value).model_fields.items() if field.default_factory is not None}
    return dict(json.loads(value.model_dump_json(include=names)))


def _no_such_field(name: str, known: tuple[str, ...]) -> Problem:
    near = did_you_mean(name, known) if len(name) <= _MAX_NAME else ""
    return Problem("bad_field", f"no such field{near}", name)


def _problems(error: ValidationError, given: Mapping[str, Any]) -> list[Problem]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [
        Problem("bad_field", details["msg"], ".".join(map(str, details["loc"])) or next(iter(given)))
        for details in found[:_MAX_PROBLEMS]
    ]
