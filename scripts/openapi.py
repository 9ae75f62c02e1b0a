#!/usr/bin/env python3
"""Write docs/openapi.json, the description of the HTTP API, unless a change of it breaks clients.

A change that only adds (routes, optional request members, response members) is written. One that breaks clients is
listed, and written with --accept-breaks.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from realtime_engine.demo import Controls, Demo
from realtime_engine.server import create_app
from realtime_engine.testing import ScriptedEngine

FILE = Path(__file__).resolve().parents[1] / "docs" / "openapi.json"
LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems")
UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")


def current() -> dict[str, Any]:
    """The description that a server gives, without what depends on the demo and the version."""
    demo = Demo("demo", "Realtime Engine", lambda options: ScriptedEngine(), Controls(), lambda window: {})
    described: dict[str, Any] = create_app(demo).openapi()
    described["info"] = {"title": "Realtime Engine", "version": "1"}
    return described


def text_of(described: dict[str, Any]) -> str:
    return json.dumps(described, indent=1, sort_keys=True) + "\n"


def breaks(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What of a client that was written against ``old`` may fail against ``new``, one sentence each."""
    found = []
    for path, methods in old["paths"].items():
        for method, operation in methods.items():
            where = f"{method.upper()} {path}"
            if method not in new["paths"].get(path, {}):
                found.append(f"{where} is removed")
                continue
            changed = new["paths"][path][method]
            found += [f"{where}: {text}" for text in _Comparison(old, new).operation(operation, changed)]
    return found


class _Comparison:
    def __init__(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._old = old
        self._new = new
        self._seen: set[tuple[str, str]] = set()

    def operation(self, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
        yield from self._parameters(old.get("parameters", []), new.get("parameters", []))
        for kind, content in new.get("requestBody", {}).get("content", {}).items():
            before = old.get("requestBody", {}).get("content", {}).get(kind)
            if before is not None:
                yield from self.request(before["schema"], content["schema"], "the request")
        for kind in old.get("requestBody", {}).get("content", {}):
            if kind not in new.get("requestBody", {}).get("content", {}):
                yield f"the request is no longer read as {kind}"
        for status, response in old["responses"].items():
            if status not in new["responses"]:
                yield f"the response {status} is removed"
                continue
            contents = new["responses"][status].get("content", {})
            for kind, content in response.get("content", {}).items():
                if kind not in contents:
                    yield f"the response {status} is no longer {kind}"
                else:
                    yield from self.response(content["schema"], contents[kind]["schema"], f"the response {status}")

    def _parameters(self, old: list[dict[str, Any]], new: list[dict[str, Any]]) -> Iterator[str]:
        before = {(each["in"], each["name"]): each for each in old}
        after = {(each["in"], each["name"]): each for each in new}
        for key, parameter in after.items():
            what = f"the parameter {key[1]}"
            if key in before:
                yield from self.request(before[key]["schema"], parameter["schema"], what)
            elif parameter.get("required"):
                yield f"{what} is required and new"
        for key in before.keys() - after.keys():
            yield f"the parameter {key[1]} is removed"

    def request(self, old: dict[str, Any], new: dict[str, Any], at: str) -> Iterator[str]:
        """What a client may no longer send."""
        if missing := self._kinds(old, self._old) - self._kinds(new, self._new):
            yield f"{at} no longer takes {', '.join(sorted(missing))}"
        old, new = self._resolved(old, new)
        for name in LOWER:
            if name in new and new[name] > old.get(name, float("-inf")):
                yield f"{at} has the {name} {new[name]}, {old.get(name, 'none')} before"
        for name in UPPER:
            if name in new and new[name] < old.get(name, float("inf")):
                yield f"{at} has the {name} {new[name]}, {old.get(name, 'none')} before"
        if "pattern" in new and new["pattern"] != old.get("pattern"):
            yield f"{at} has another pattern"
        yield from self._members(old, new, at, self.request)
        for name in set(new.get("required", ())) - set(old.get("required", ())):
            yield f"{at}.{name} is required"

    def response(self, old: dict[str, Any], new: dict[str, Any], at: str) -> Iterator[str]:
        """What a client may no longer read."""
        pair = (json.dumps(old, sort_keys=True), json.dumps(new, sort_keys=True))
        if pair in self._seen:
            return
        self._seen.add(pair)
        if "enum" not in _resolve(old, self._old) and (
            added := self._kinds(new, self._new) - self._kinds(old, self._old)
        ):
            yield f"{at} may be {', '.join(sorted(added))}"
        elif not self._kinds(new, self._new) & self._kinds(old, self._old):
            yield f"{at} has none of the values that it had"
        old, new = self._resolved(old, new)
        yield from self._members(old, new, at, self.response)
        for name in set(old.get("required", ())) - set(new.get("required", ())):
            if name in new.get("properties", {}):
                yield f"{at}.{name} may be missing"

    def _members(self, old: dict[str, Any], new: dict[str, Any], at: str, compare: Any) -> Iterator[str]:
        after = new.get("properties", {})
        for name, schema in old.get("properties", {}).items():
            if name not in after:
                yield f"{at}.{name} is removed"
            else:
                yield from compare(schema, after[name], f"{at}.{name}")
        for part in ("items", "additionalProperties"):
            if isinstance(old.get(part), dict) and isinstance(new.get(part), dict):
                yield from compare(old[part], new[part], f"{at}[]")

    def _resolved(self, old: dict[str, Any], new: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        return _without_null(old, self._old), _without_null(new, self._new)

    def _kinds(self, schema: dict[str, Any], root: dict[str, Any]) -> set[str]:
        """The types that a value may have, or the values themselves where they are listed."""
        schema = _resolve(schema, root)
        if "enum" in schema or "const" in schema:
            return {json.dumps(value) for value in schema.get("enum", [schema.get("const")])}
        if "anyOf" in schema:
            return set().union(*(self._kinds(each, root) for each in schema["anyOf"]))
        given = schema.get("type", ["boolean", "integer", "number", "string", "array", "object", "null"])
        return {given} if isinstance(given, str) else set(given)


def _resolve(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        found: dict[str, Any] = root["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return found
    return schema


def _without_null(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """The schema; of an optional one, that of its values."""
    schema = _resolve(schema, root)
    alternatives = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    return _resolve(alternatives[0], root) if len(alternatives) == 1 else schema


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accept-breaks", action="store_true", help="write a description that breaks clients")
    accepts = parser.parse_args().accept_breaks
    described = current()
    found = breaks(json.loads(FILE.read_text()), described) if FILE.exists() else []
    for text in found:
        print(text, file=sys.stderr)
    if found and not accepts:
        print("Clients would break. Undo the change, or run this with --accept-breaks.", file=sys.stderr)
        return 1
    FILE.write_text(text_of(described))
    return 0


if __name__ == "__main__":
    sys.exit(main())
