"""The responses of the server fit the bodies that its OpenAPI description promises."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from realtime_engine.server.openapi import REQUEST_EXAMPLES, RESPONSES, ProblemBody

from .support import in_process, paint_demo


@pytest.mark.parametrize("key", RESPONSES, ids=" ".join)
def test_the_example_of_a_response_is_valid(key: tuple[str, str, str]) -> None:
    model, example = RESPONSES[key]
    model.model_validate(example)


async def test_the_responses_are_as_described() -> None:
    async with in_process(paint_demo()) as served:
        client = served.client
        described = (await client.get("/openapi.json")).json()

        def check(method: str, path: str, answer: Any) -> None:
            content = described["paths"][path][method]["responses"][str(answer.status_code)]["content"]
            schema = {**content["application/json"]["schema"], "components": described["components"]}
            jsonschema.validate(answer.json(), schema, cls=jsonschema.Draft202012Validator)

        check("get", "/healthz", await client.get("/healthz"))
        check("get", "/readyz", await client.get("/readyz"))
        check("post", "/api/sessions", await client.post("/api/sessions", json={}))
        owned = await served.create()
        waiting = await client.post("/api/sessions", json={})
        assert waiting.status_code == 202
        check("post", "/api/sessions", waiting)
        check("get", "/api/tickets/{ticket_id}", await client.get("/" + waiting.json()["links"]["self"]))
        check("get", "/api/sessions", await client.get("/api/sessions"))
        check("get", "/api/sessions/{session_id}", await owned.request("GET", "self"))
        paused = await owned.request("PATCH", "self", json={"active": False})
        check("patch", "/api/sessions/{session_id}", paused)
        check("post", "/api/sessions/{session_id}/reset", await owned.request("POST", "reset", json={}))
        invited = (await owned.request("POST", "invitations", json={})).json()
        joined = await client.post("/api/invitations", json={"token": invited["token"]})
        assert joined.status_code == 201
        check("post", "/api/invitations", joined)
        check("get", "/api/lobby", await client.get("/api/lobby"))
        ProblemBody.model_validate((await client.get("/api/sessions/none")).json())


async def test_every_request_example_is_accepted_by_its_schema() -> None:
    async with in_process(paint_demo()) as served:
        described = (await served.client.get("/openapi.json")).json()
    for (method, path), example in REQUEST_EXAMPLES.items():
        content = described["paths"][path][method]["requestBody"]["content"]["application/json"]
        assert content["example"] == example
        jsonschema.validate(example, content["schema"])
