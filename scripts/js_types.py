#!/usr/bin/env python3
"""Write clients/js/protocol.d.ts: the messages of the controls protocol and the bodies of the HTTP API."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TYPES = ROOT / "clients" / "js" / "protocol.d.ts"
HEAD = """\
/** Messages of the controls protocol, and request bodies of the HTTP API. Written by scripts/js_types.py. */
"""
_REFERENCE = "#/$defs/"
_PLAIN = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}

Schema = Mapping[str, Any]


def generated() -> str:
    """The whole file."""
    from realtime_engine.demo import protocol_schema
    from realtime_engine.integrations.maze.demo import demo
    from realtime_engine.server import create_app

    protocol = protocol_schema()
    openapi = create_app(demo).openapi()
    bodies = {schema["title"]: schema for schema in _body_schemas(openapi)}
    parts = [
        HEAD,
        *(_declaration(name, schema) for name, schema in protocol["$defs"].items()),
        _alias("Message", "A message of the controls protocol.", protocol["anyOf"]),
        *(_declaration(name, schema) for name, schema in sorted(bodies.items())),
        _routes(openapi),
    ]
    return "\n".join(parts)


def typescript(schema: Schema) -> str:
    """The type that a JSON Schema describes."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_REFERENCE)
    for key in ("const", "enum"):
        if key in schema:
            values = [schema[key]] if key == "const" else schema[key]
            return " | ".join(json.dumps(value) for value in values)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " | ".join(typescript(each) for each in schema[key])
    kind = schema.get("type")
    if kind == "array":
        return _array(schema)
    if kind == "object":
        return _object(schema)
    return _PLAIN[kind] if kind is not None else "unknown"


def _array(schema: Schema) -> str:
    item = typescript(schema.get("items", {}))
    size = schema.get("maxItems")
    if size is not None and size == schema.get("minItems"):
        return f"[{', '.join([item] * size)}]"
    return f"Array<{item}>"


def _object(schema: Schema) -> str:
    if "properties" in schema:
        return f"{{ {'; '.join(_members(schema))} }}"
    values = schema.get("additionalProperties", {})
    return f"Record<string, {typescript(values) if isinstance(values, Mapping) else 'unknown'}>"


def _members(schema: Schema) -> Iterable[str]:
    required = schema.get("required", ())
    for name, member in schema["properties"].items():
        yield f"{name}{'' if name in required else '?'}: {typescript(member)}"


def _declaration(name: str, schema: Schema) -> str:
    comment = _comment(schema.get("description", ""))
    if "properties" not in schema:
        return f"{comment}export type {name} = {typescript(schema)};\n"
    lines = "".join(f"  {member};\n" for member in _members(schema))
    return f"{comment}export interface {name} {{\n{lines}}}\n"


def _alias(name: str, text: str, schemas: Iterable[Schema]) -> str:
    members = " | ".join(map(typescript, schemas)).split(" | ")
    lines = "".join(f"\n  | {member}" for member in members)
    return f"{_comment(text)}export type {name} ={lines};\n"


def _comment(text: str) -> str:
    text = re.sub(r":\w+:`~?[\w.]*\.([^`.]+)`", r"`\1`", text).replace("``None``", "``null``")
    lines = text.replace("``", "`").splitlines()
    if len(lines) < 2:
        return f"/** {lines[0]} */\n" if lines else ""
    return "/**\n" + "".join(f" * {line}".rstrip() + "\n" for line in lines) + " */\n"


def _body_schemas(openapi: Schema) -> Iterable[Schema]:
    for path in openapi["paths"].values():
        for operation in path.values():
            schema = _body_of(operation)
            if schema is not None and "title" in schema:
                yield schema


def _body_of(operation: Schema) -> Schema | None:
    content = operation.get("requestBody", {}).get("content", {})
    return content.get("application/json", {}).get("schema")


def _routes(openapi: Schema) -> str:
    lines = []
    for path, operations in sorted(openapi["paths"].items()):
        bodies = []
        for method, operation in operations.items():
            schema = _body_of(operation)
            name = "null" if schema is None else schema.get("title", "unknown")
            bodies.append(f"{method.upper()}: {name}")
        lines.append(f"  {json.dumps(path)}: {{ {'; '.join(bodies)} }};\n")
    comment = _comment("The routes, and the JSON body of each request: `null` for none.")
    return f"{comment}export interface Routes {{\n{''.join(lines)}}}\n"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    TYPES.write_text(generated(), encoding="utf-8")
