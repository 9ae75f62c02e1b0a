"""Typed fields: values set by clients, validated against the demo's pydantic model."""

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
from .parsing import MessageFault, MessageRefused

_log = LogLimiter(logging.getLogger(__name__), MONOTONIC)

_MAX_PROBLEMS = 8
_MAX_NAME = 64  # no suggestion is made for a longer name


class _RuleViolated(MessageRefused):
    """A fault that belongs to no single field."""


class StagedFields(NamedTuple):
    """A validated update that is not applied yet."""

    given: dict[str, Any]
    value: BaseModel | None
    seq: int | None
    slot: int


class FieldValues:
    """The newest value of each field, and the model instance built from them.

    Args:
        model: the demo's model; ``None`` without fields.
        drawn: values that default factories drew in another run; by default they are drawn again.

    Attributes:
        given: values set by clients, as they were sent.
        drawn: values drawn by default factories, as JSON values.
        value: the model instance; ``None`` without fields.
    """

    def __init__(self, model: type[BaseModel] | None, drawn: Mapping[str, Any] | None = None) -> None:
        self._model = model
        self.given: dict[str, Any] = {}  # unvalidated: a validator may refuse its own output as input
        self._seq_of: dict[tuple[int, str], int] = {}  # (slot, name) -> seq of the newest message that set it
        self.value: BaseModel | None = None if model is None else model()
        self.drawn = _drawn_defaults(self.value)
        if drawn:
            self.drawn |= {name: value for name, value in drawn.items() if name in self.drawn}
            self.value = self._build({})

    def stage(self, values: Mapping[str, Any], seq: int | None = None, slot: int = 0) -> StagedFields:
        """Validate an update as a whole.

        Fields that the controller in ``slot`` has already set by a message newer than ``seq`` keep their value.

        Raises:
            MessageRefused: the model refuses a value; one ``bad_field`` problem for each, at most eight.
        """
        self._check_names(values, seq)
        given = {name: value for name, value in values.items() if self._is_newer(name, seq, slot)}
        return StagedFields(given, self._validate(given, seq), seq, slot)

    def stage_valid_part(
        self, values: Mapping[str, Any], seq: int | None = None, slot: int = 0
    ) -> tuple[StagedFields, list[MessageFault]]:
        """Validate an update without the fields that are refused, whose faults are returned.

        Where a rule over several fields is violated, they are added one after the other, and the first ones are kept.
        """
        valid, faults = dict(values), list[MessageFault]()
        while True:
            try:
                return self.stage(valid, seq, slot), faults
            except MessageRefused as refusal:
                refused = {(fault.field or "").split(".", 1)[0] for fault in refusal.problems}
                if isinstance(refusal, _RuleViolated) or valid.keys().isdisjoint(refused):
                    break
                faults += refusal.problems
                valid = {name: value for name, value in valid.items() if name not in refused}
        staged = self.stage({}, seq, slot)
        for name, value in valid.items():
            try:
                staged = self.stage({**staged.given, name: value}, seq, slot)
            except MessageRefused as refusal:
                faults += [fault._replace(field=name) for fault in refusal.problems[:1]]
        return staged, faults

    def commit(self, staged: StagedFields) -> None:
        """Apply an update from :meth:`stage`."""
        self.given.update(staged.given)
        self.value = staged.value
        if staged.seq is not None:
            self._seq_of.update({(staged.slot, name): staged.seq for name in staged.given})

    def forget(self, slot: int) -> None:
        """The next controller in ``slot`` numbers its messages anew."""
        self._seq_of = {key: seq for key, seq in self._seq_of.items() if key[0] != slot}

    def _is_newer(self, name: str, seq: int | None, slot: int) -> bool:
        return seq is None or seq > self._seq_of.get((slot, name), -1)

    def _check_names(self, values: Mapping[str, Any], seq: int | None) -> None:
        known = () if self._model is None else tuple(self._model.model_fields)
        unknown = list(islice((str(name) for name in values if name not in known), _MAX_PROBLEMS))
        if unknown:
            raise MessageRefused(*(_no_such_field(name, known) for name in unknown), seq=seq)

    def _validate(self, given: Mapping[str, Any], seq: int | None) -> BaseModel | None:
        if self._model is None or not given:
            return self.value
        try:
            return self._build({**self.given, **given})
        except ValidationError as error:
            refusal = MessageRefused if all(details["loc"] for details in error.errors()) else _RuleViolated
            raise refusal(*_problems(error, given), seq=seq) from None
        except Exception as error:  # a validator of the demo may raise anything
            _log.error("a validator of the demo's fields failed", error)
            detail = f"could not be checked: {type(error).__name__}"
            raise _RuleViolated(MessageFault("bad_field", detail, next(iter(given))), seq=seq) from None

    def _build(self, given: Mapping[str, Any]) -> BaseModel:
        assert self._model is not None
        value = self._model.model_validate_json(json.dumps({**self.drawn, **given}))
        value.model_fields_set.intersection_update(given)
        return value


def _drawn_defaults(value: BaseModel | None) -> dict[str, Any]:
    """Values drawn by default factories. They are kept, because each update builds a new instance."""
    if value is None:
        return {}
    names = {name for name, field in type(value).model_fields.items() if field.default_factory is not None}
    return dict(json.loads(value.model_dump_json(include=names)))


def _no_such_field(name: str, known: tuple[str, ...]) -> MessageFault:
    near = did_you_mean(name, known) if len(name) <= _MAX_NAME else ""
    return MessageFault("bad_field", f"no such field{near}", name)


def _problems(error: ValidationError, given: Mapping[str, Any]) -> list[MessageFault]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [
        MessageFault("bad_field", details["msg"], ".".join(map(str, details["loc"])) or next(iter(given)))
        for details in found[:_MAX_PROBLEMS]
    ]
