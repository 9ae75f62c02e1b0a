"""Flags out of a demo's typed fields: what a client would type."""

from __future__ import annotations

import base64
import inspect
import mimetypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ..infra.runner_io import load_image, load_prompt, local_path
from .errors import CommandError
from .flags import flag_of, is_structured, kind_and_text, parameter, parse_json, taken_flags

_PREFIX = "field_"
_FILE_MARK = "@"
_MOST_IMAGE_BYTES = 8 * 2**20  # as the page allows


def field_parameters(model: type[BaseModel], config: type, options: type[BaseModel] | None) -> list[inspect.Parameter]:
    """One flag for each field, without a value when it is not given.

    A name that the command or an option of the demo has already becomes ``--field-NAME``.
    """
    taken = taken_flags(config) | ({flag_of(name) for name in options.model_fields} if options is not None else set())
    parameters = []
    for name, info in model.model_fields.items():
        kind, text = kind_and_text(info)
        if _is_image(model, name):
            text += " A picture's file or URL."
        elif kind is str and not is_structured(info.annotation):
            text += f" {_FILE_MARK}FILE takes the first line of a file."
        flag = flag_of(name)
        flag = flag_of(f"field_{name}") if flag in taken else flag
        parameters.append(parameter(_PREFIX + name, kind, None, flag, text.strip(), rich_help_panel="Fields"))
    return parameters


def fields_from(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as a client would send them, out of what the flags were given. Raises :class:`CommandError`."""
    given = {name: values[_PREFIX + name] for name in model.model_fields if values[_PREFIX + name] is not None}
    try:
        return {name: _value(model, name, value) for name, value in given.items()}
    except OSError as error:
        named = error.filename is not None
        raise CommandError(f"cannot read {error.filename}: {error.strerror}" if named else str(error)) from error
    except ValueError as error:
        raise CommandError(str(error)) from error


def _value(model: type[BaseModel], name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if _is_image(model, name):
        return _data_url(value)
    if is_structured(model.model_fields[name].annotation):
        return parse_json(flag_of(name), value)
    return load_prompt(Path(value[1:])) if value.startswith(_FILE_MARK) else value


def _is_image(model: type[BaseModel], name: str) -> bool:
    """As the page tells a field for a picture from one for text."""
    properties = model.model_json_schema(by_alias=False).get("properties", {})
    schema = properties.get(name, {})
    schemas = [schema, *schema.get("anyOf", ())]
    return any(
        part.get("contentMediaType", "").startswith("image/") or part.get("format") in ("image", "data-url")
        for part in schemas
    )


def _data_url(source: str) -> str:
    if source.startswith("data:"):
        return source
    path = local_path(source)
    load_image(path)  # which says in plain words what is wrong with it
    data = path.read_bytes()
    if len(data) > _MOST_IMAGE_BYTES:
        raise ValueError(f"{source} has {len(data)} bytes: a field takes a picture of {_MOST_IMAGE_BYTES} at most")
    kind = mimetypes.guess_type(path.name)[0] or "image/png"
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
