"""What a session begins with: the fields of a request, checked."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from ..core.errors import describe
from ..infra.controls import ControlState
from ..infra.controls.fields import StagedFields
from ..infra.controls.parsing import MessageRefused
from ..infra.demo import Demo
from .problems import Problem, pointer

logger = logging.getLogger(__name__)


def stage_fields(state: ControlState, values: Mapping[str, Any]) -> StagedFields:
    """Check typed fields; nothing changes. Errors: :class:`Problem` (422) that names each field."""
    try:
        return state.stage_fields(values)
    except MessageRefused as refusal:
        refusals = [reply["error"] for reply in refusal.replies()]
    raise _invalid([(_pointer(refused["field"]), refused["detail"]) for refused in refusals])


def context_of(demo: Demo, fields: BaseModel | None) -> Mapping[str, Any]:
    """The engine's context for these fields. Errors: :class:`Problem` (422, 500)."""
    missing = demo.missing_context(fields)
    if missing:
        raise _invalid([(pointer("context", name), "is required") for name in missing])
    try:
        return demo.attach_context(fields)
    except ValueError as error:
        raise _invalid([(pointer("context"), str(error))]) from error
    except Exception as error:  # the demo's own code may raise anything
        logger.exception("the context function of demo %r failed", demo.name)
        raise Problem("engine-failed", describe(error)) from error


def _pointer(field: str | None) -> str:
    return pointer("context", *(field.split(".") if field else ()))


def _invalid(errors: list[tuple[str, str]]) -> Problem:
    detail = "; ".join(f"{place.rpartition('/')[2]}: {text}" for place, text in errors)
    return Problem("invalid-context", detail, errors=errors)
