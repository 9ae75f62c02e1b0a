"""What a session begins with: the fields of a request, checked."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ..core.errors import describe
from ..infra.controls import ControlState
from ..infra.demo import Demo
from .problems import Problem, pointer

logger = logging.getLogger(__name__)


def set_fields(state: ControlState, values: Mapping[str, Any]) -> None:
    """Set typed fields. Errors: :class:`Problem` (422) that names each field; nothing has changed then."""
    refusals = [reply["error"] for reply in state.update_fields(values)]
    if refusals:
        errors = [(_pointer(refusal["field"]), refusal["detail"]) for refusal in refusals]
        raise _invalid(errors)


def context_of(demo: Demo, state: ControlState) -> Mapping[str, Any]:
    """The engine's context for the fields that are set. Errors: :class:`Problem` (422, 500)."""
    fields = state.window().fields
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
