import json

from realtime_engine.server.problems import MEDIA_TYPE, TITLES, Problem, pointer

from .support import in_process


def test_a_problem_has_a_stable_type_and_pointers() -> None:
    response = Problem(
        "invalid-context", "seed: too small", errors=[(pointer("context", "seed"), "too small")]
    ).response()
    assert response.status_code == 422 and response.media_type == MEDIA_TYPE
    assert json.loads(response.body) == {
        "type": "urn:realtime-engine:problem:invalid-context",
        "title": "The session context is invalid",
        "status": 422,
        "detail": "seed: too small",
        "errors": [{"pointer": "#/context/seed", "detail": "too small"}],
    }


def test_pointers_are_escaped() -> None:
    assert pointer() == "#"
    assert pointer("a/b", "~", 0) == "#/a~1b/~0/0"


def test_each_kind_has_an_error_status() -> None:
    assert all(400 <= status < 600 and title for status, title in TITLES.values())


async def test_unknown_paths_and_methods_are_problems() -> None:
    async with in_process() as served:
        missing = await served.client.get("/api/nothing")
        wrong = await served.client.put("/api/sessions")
    assert (missing.status_code, missing.headers["content-type"]) == (404, MEDIA_TYPE)
    assert (wrong.status_code, wrong.json()["type"]) == (405, "urn:realtime-engine:problem:method")


async def test_an_unexpected_error_reveals_no_details() -> None:
    async with in_process() as served:
        served.runtime.metrics.text = lambda: 1 / 0  # type: ignore[method-assign]
        response = await served.client.get("/metrics")
    assert response.status_code == 500 and response.headers["content-type"] == MEDIA_TYPE
    assert "division" not in response.text
