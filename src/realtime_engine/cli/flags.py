"""Command-line flags generated from the server configuration and from the options and fields of a demo."""

from __future__ import annotations

import base64
import enum
import inspect
import json
import mimetypes
import re
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import typer
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from ..infra.runner_io import load_image, load_prompt, local_path
from ..infra.webrtc import IceServer
from ..server.config import ServerConfig
from .console import CommandError

ENVIRONMENT = "REALTIME_ENGINE_"
_Model = TypeVar("_Model", bound=BaseModel)
_PLAIN = (bool, int, float)
_METAVARS = {int: "INTEGER", float: "NUMBER", str: "TEXT", list[str]: "TEXT"}


def config_parameters(config: type = ServerConfig, panel: str = "Server") -> list[inspect.Parameter]:
    """One flag for each field of a settings dataclass, with the default of the field."""
    kinds = get_type_hints(config)
    texts = attribute_texts(config)
    return [_config_parameter(field, kinds[field.name], texts[field.name], panel) for field in fields(config)]


def config_from(values: Mapping[str, Any]) -> ServerConfig:
    """The configuration from the values of the flags of :func:`config_parameters`.

    Raises:
        CommandError: a value is invalid.
    """
    given = {field.name: values[field.name] for field in fields(ServerConfig)}
    for name, value in given.items():
        if isinstance(value, list):
            given[name] = tuple(value)
    try:
        given["ice_servers"] = tuple(_ice_server(text) for text in given["ice_servers"])
        return ServerConfig(**given)
    except ValueError as error:
        raise CommandError(str(error)) from error


def taken_flags(config: type) -> set[str]:
    """Flags that a command with these settings uses."""
    return {*map(flag_of, ("demo", "help", "log_level")), *(flag_of(field.name) for field in fields(config))}


def option_parameters(
    model: type[BaseModel], config: type = ServerConfig, command: str = "serve"
) -> list[inspect.Parameter]:
    """One flag for each option of a demo; without a value if it is not given.

    Raises:
        CommandError: the command itself uses the name of an option.
    """
    taken = taken_flags(config)
    for name in model.model_fields:
        if flag_of(name) in taken:
            raise CommandError(
                f"option {name!r} of the demo has a name that is reserved by {command}: rename the option"
            )
    return [_option_parameter(name, info) for name, info in model.model_fields.items()]


def options_from(model: type[_Model], values: Mapping[str, Any], base: Mapping[str, Any] | None = None) -> _Model:
    """The options from the values of the flags of :func:`option_parameters`, otherwise from ``base``.

    Raises:
        CommandError: a value is invalid.
    """
    given = {name: values[name] for name in model.model_fields if values[name] is not None}
    for name, value in given.items():
        if isinstance(value, str) and is_structured(model.model_fields[name].annotation):
            given[name] = parse_json(flag_of(name), value)
    given = {**{name: value for name, value in (base or {}).items() if name in model.model_fields}, **given}
    try:
        return model.model_validate({model.model_fields[name].alias or name: value for name, value in given.items()})
    except ValidationError as error:
        faults = [_fault(fault["loc"], fault["msg"], fault["input"]) for fault in error.errors()]
        raise CommandError("; ".join(faults)) from error


def flag_of(name: str) -> str:
    """Convert ``idle_timeout_s`` to ``--idle-timeout``; the unit of seconds is omitted."""
    return "--" + name.removesuffix("_s").replace("_", "-")


def variable_of(flag: str) -> str:
    """Convert ``--idle-timeout`` to ``REALTIME_ENGINE_IDLE_TIMEOUT``."""
    return ENVIRONMENT + flag.removeprefix("--").replace("-", "_").upper()


def with_default(text: str, default: object) -> str:
    """Append the default to ``text``, unless it is ``None`` or empty."""
    if default in (None, ""):
        return text
    sentence = text if not text or text.endswith((".", "!", "?")) else text + "."
    return f"{sentence} Default: {_shown(default)}.".strip()


def attribute_texts(owner: type) -> dict[str, str]:
    """The description of each name in the section ``Attributes`` of a docstring."""
    inherited = [attribute_texts(base) for base in owner.__bases__ if base is not object]
    section = inspect.getdoc(owner).partition("Attributes:\n")[2].partition("\n\n")[0]  # type: ignore[union-attr]
    texts = {name: text for each in inherited for name, text in each.items()}
    for entry in re.split(r"\n(?=    \S)", section):
        names, _, text = entry.partition(":")
        texts |= dict.fromkeys((name.strip() for name in names.split(",")), " ".join(text.split()))
    return texts


def _config_parameter(field: Field[Any], kind: Any, text: str, panel: str) -> inspect.Parameter:
    default = None if field.default is MISSING else field.default
    bare = _bare(kind)
    if get_origin(bare) is tuple:
        flag = flag_of(field.name).removesuffix("s")
        return parameter(
            field.name, list[str], list(default or ()), flag, text + " May be repeated.", rich_help_panel=panel
        )
    more: dict[str, Any] = {"metavar": "SECONDS"} if field.name.endswith("_s") else {}
    text = with_default(text, default)
    return parameter(field.name, bare, default, flag_of(field.name), text, rich_help_panel=panel, **more)


def _option_parameter(name: str, info: FieldInfo) -> inspect.Parameter:
    kind, text = kind_and_text(info)
    return parameter(name, kind, None, flag_of(name), text, rich_help_panel="Demo")


def kind_and_text(info: FieldInfo) -> tuple[Any, str]:
    """Type and help text of the flag of a model field."""
    bare = _bare(info.annotation)
    text = " ".join(part for part in (info.description or info.title or "", _choices(bare)) if part)
    default = None if info.is_required() or info.default_factory is not None or info.default == "" else info.default
    return bare if bare in _PLAIN else str, with_default(text, default)


def parameter(name: str, kind: Any, default: Any, flag: str, text: str, **more: Any) -> inspect.Parameter:
    """An option in the form that typer reads from a signature."""
    more = {"metavar": _METAVARS.get(kind), "show_envvar": False, **more}
    more["show_default"] = False  # the help text contains the effective default
    declared = f"{flag}/--no-{flag.removeprefix('--')}" if kind is bool else flag
    plain = text.replace("``", "")
    sentence = plain if text.startswith("``") else plain[:1].upper() + plain[1:]
    option = typer.Option(default, declared, envvar=variable_of(flag), help=sentence, **more)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind)


def _bare(kind: Any) -> Any:
    """Convert ``X | None`` to ``X``."""
    if get_origin(kind) in (Union, types.UnionType):
        inner = [member for member in get_args(kind) if member is not type(None)]
        return inner[0] if len(inner) == 1 else str
    return kind


def _choices(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"One of {', '.join(map(str, get_args(kind)))}."
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return f"One of {', '.join(str(member.value) for member in kind)}."
    return ""


def _shown(default: object) -> str:
    text = str(default.value if isinstance(default, enum.Enum) else default)
    return text.lower() if isinstance(default, bool) else text


def is_structured(kind: Any) -> bool:
    """Whether a flag of this type takes JSON."""
    return (get_origin(_bare(kind)) or _bare(kind)) in (list, tuple, set, frozenset, dict)


def parse_json(flag: str, text: str) -> Any:
    """Parse the JSON value of a flag.

    Raises:
        CommandError: the value is not JSON.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise CommandError(f"{flag}: expected JSON, got {text!r} ({error})") from error


def _fault(place: tuple[int | str, ...], message: str, given: Any) -> str:
    return f"{flag_of(str(place[0])) if place else 'options'}: {message}, got {given!r}"


def _ice_server(text: str) -> IceServer:
    parts = text.split(",")
    if len(parts) not in (1, 3):
        raise ValueError(f"--ice-server must be URL or URL,USER,PASSWORD, got {text!r}")
    return IceServer(*parts)


_PREFIX = "field_"
_FILE_MARK = "@"
_MAX_IMAGE_BYTES = 8 * 2**20  # the limit of the page


def field_parameters(model: type[BaseModel], config: type, options: type[BaseModel] | None) -> list[inspect.Parameter]:
    """One flag for each field; without a value if it is not given.

    If the command or an option of the demo uses the name, the flag is ``--field-NAME``.
    """
    taken = taken_flags(config) | ({flag_of(name) for name in options.model_fields} if options is not None else set())
    parameters = []
    for name, info in model.model_fields.items():
        kind, text = kind_and_text(info)
        if _is_image(model, name):
            text += " Path or URL of an image."
        elif kind is str and not is_structured(info.annotation):
            text += f" {_FILE_MARK}FILE reads the first line of a file."
        flag = flag_of(name)
        flag = flag_of(f"field_{name}") if flag in taken else flag
        parameters.append(parameter(_PREFIX + name, kind, None, flag, text.strip(), rich_help_panel="Fields"))
    return parameters


def fields_from(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Fields in the form that a client sends, from the values of the flags.

    Raises:
        CommandError: a file cannot be read, or a value is invalid.
    """
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
    """Whether a field holds an image, by the same rule as the page."""
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
    load_image(path)  # raises a descriptive error for an invalid image
    data = path.read_bytes()
    if len(data) > _MAX_IMAGE_BYTES:
        raise ValueError(f"{source} has {len(data)} bytes: a field accepts images of at most {_MAX_IMAGE_BYTES} bytes")
    kind = mimetypes.guess_type(path.name)[0] or "image/png"
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
