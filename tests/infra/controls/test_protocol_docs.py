"""docs/protocol.md shows messages and a declaration; they are what the code says."""

import json
import re
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from realtime_engine import RejectionCode
from realtime_engine.infra.controls import Controls, ControlState, protocol_schema
from realtime_engine.infra.controls.schema import EDGE_KINDS, ClientMessage, ErrorCode, ServerMessage
from realtime_engine.server.problems import TITLES
from realtime_engine.testing import ManualClock

TEXT = (Path(__file__).parents[3] / "docs" / "protocol.md").read_text()
BLOCKS = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```$", TEXT, re.S | re.M)]
MESSAGES = [block for block in BLOCKS if "type" in block]
CLIENT_TYPES = ("controls", "blur", "ping", "presented")


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message["type"])
def test_each_example_is_a_message(message):
    TypeAdapter(ClientMessage if message["type"] in CLIENT_TYPES else ServerMessage).validate_python(message)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message["type"])
def test_each_example_fits_the_published_schema(message):
    import jsonschema

    validator = jsonschema.Draft202012Validator(protocol_schema())
    validator.validate(message)
    assert not validator.is_valid({**message, "surprise": 1})


def test_there_is_an_example_of_every_message_and_of_every_edge():
    assert {message["type"] for message in MESSAGES} == {
        *CLIENT_TYPES,
        "pong",
        "error",
        "event",
        "frame",
        "timing",
        "turn",
        "role",
        "takeover",
        "hud",
    }
    assert {edge["kind"] for message in MESSAGES for edge in message.get("edges", ())} == set(EDGE_KINDS)


def test_every_rejection_code_is_explained_with_a_problem_that_exists():
    table = TEXT.partition("#### Rejections")[2].partition("```json")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| (\d+ `[\w-]+`) \|$", table, re.M))
    assert list(rows) == [code.value for code in RejectionCode]
    problems = [f"{status} `{kind}`" for kind, (status, _) in TITLES.items()]
    assert [problem for problem in rows.values() if problem not in problems] == []


def test_every_error_code_is_explained():
    codes = ErrorCode.__args__
    assert [code for code in codes if f"| `{code}` |" not in TEXT] == []


def test_the_declaration_describes_itself_as_shown():
    (source,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.S | re.M)
    namespace = {"__name__": "example"}
    exec(compile(source, "protocol.md", "exec"), namespace)
    controls = namespace["controls"]
    assert isinstance(controls, Controls)
    (described,) = [block for block in BLOCKS if "type" not in block]
    assert controls.describe() == described


def test_the_client_examples_are_taken_by_the_shown_declaration():
    (source,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.S | re.M)
    namespace = {"__name__": "example"}
    exec(compile(source, "protocol.md", "exec"), namespace)
    state = ControlState(namespace["controls"], ManualClock())
    for message in MESSAGES:
        if message["type"] in CLIENT_TYPES:
            assert all(reply["type"] == "pong" for reply in state.receive(json.dumps(message)))
    assert state.window().fields.prompt == "lava"
