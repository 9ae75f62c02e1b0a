"""docs/openapi.json is that of the server, and scripts/openapi.py finds each change of it that breaks clients."""

from __future__ import annotations

import copy
import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "openapi.py"))
FILE: Path = SCRIPT["FILE"]
Change = Callable[[dict[str, Any]], object]


def test_no_change_breaks_clients_and_the_file_is_current() -> None:
    committed, current = json.loads(FILE.read_text()), SCRIPT["current"]()
    assert SCRIPT["breaks"](committed, current) == [], "undo the change, or run scripts/openapi.py --accept-breaks"
    assert FILE.read_text() == SCRIPT["text_of"](current), "run scripts/openapi.py"


OLD: dict[str, Any] = {
    "paths": {
        "/things/{id}": {
            "post": {
                "parameters": [{"in": "query", "name": "size", "schema": {"type": "integer", "maximum": 9}}],
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/In"}}}},
                "responses": {
                    "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Out"}}}},
                    "204": {"description": "nothing"},
                },
            }
        }
    },
    "components": {
        "schemas": {
            "In": {
                "type": "object",
                "properties": {
                    "name": {"anyOf": [{"type": "string", "maxLength": 9}, {"type": "null"}]},
                    "kind": {"enum": ["a", "b"]},
                    "count": {"type": "integer", "minimum": 1},
                },
            },
            "Out": {
                "type": "object",
                "required": ["id", "state"],
                "properties": {
                    "id": {"type": "string"},
                    "state": {"enum": ["on", "off"]},
                    "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Part"}},
                },
            },
            "Part": {"type": "object", "required": ["size"], "properties": {"size": {"type": "integer"}}},
        }
    },
}


def operation(api: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = api["paths"]["/things/{id}"]["post"]
    return found


def members(api: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = api["components"]["schemas"][name]["properties"]
    return found


def after(change: Change) -> list[str]:
    new = copy.deepcopy(OLD)
    change(new)
    found: list[str] = SCRIPT["breaks"](OLD, new)
    return [text.removeprefix("POST /things/{id}: ") for text in found]


BREAKS: list[tuple[Change, str]] = [
    (lambda api: api["paths"].clear(), "POST /things/{id} is removed"),
    (lambda api: operation(api)["responses"].pop("204"), "the response 204 is removed"),
    (
        lambda api: operation(api)["responses"].update({"200": {"content": {"text/plain": {"schema": {}}}}}),
        "the response 200 is no longer application/json",
    ),
    (lambda api: operation(api)["parameters"].clear(), "the parameter size is removed"),
    (
        lambda api: operation(api)["parameters"].append({"in": "query", "name": "at", "required": True, "schema": {}}),
        "the parameter at is required and new",
    ),
    (lambda api: members(api, "In").pop("count"), "the request.count is removed"),
    (lambda api: members(api, "In")["kind"].update(enum=["a"]), 'the request.kind no longer takes "b"'),
    (lambda api: members(api, "In").update(name={"type": "string"}), "the request.name no longer takes null"),
    (
        lambda api: members(api, "In")["name"]["anyOf"][0].update(maxLength=8),
        "the request.name has the maxLength 8, 9 before",
    ),
    (lambda api: members(api, "In")["count"].update(minimum=2), "the request.count has the minimum 2, 1 before"),
    (
        lambda api: api["components"]["schemas"]["In"].update(required=["kind"]),
        "the request.kind is required",
    ),
    (lambda api: members(api, "Out").pop("id"), "the response 200.id is removed"),
    (lambda api: members(api, "Out").update(id={"type": "integer"}), "the response 200.id may be integer"),
    (lambda api: api["components"]["schemas"]["Out"].update(required=["id"]), "the response 200.state may be missing"),
    (
        lambda api: members(api, "Part").update(size={"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        "the response 200.parts[].size may be null",
    ),
]


@pytest.mark.parametrize(("change", "text"), BREAKS, ids=[text for _, text in BREAKS])
def test_a_change_that_breaks_clients_is_named(change: Change, text: str) -> None:
    assert after(change) == [text]


ADDITIONS: list[Change] = [
    lambda api: api["paths"].update({"/more": {"get": {"responses": {}}}}),
    lambda api: members(api, "In").update(more={"type": "string"}),
    lambda api: members(api, "In")["kind"].update(enum=["a", "b", "c"]),
    lambda api: members(api, "In")["count"].pop("minimum"),
    lambda api: members(api, "Out").update(more={"type": "string"}),
    lambda api: members(api, "Out")["state"].update(enum=["on", "off", "idle"]),
    lambda api: operation(api)["parameters"].append({"in": "query", "name": "at", "schema": {}}),
    lambda api: operation(api)["responses"].update({"202": {"description": "later"}}),
    lambda api: operation(api).update(summary="Another text", description="Another description"),
]


@pytest.mark.parametrize("change", ADDITIONS)
def test_an_addition_breaks_nothing(change: Change) -> None:
    assert after(change) == []
