"""Flags out of the server's configuration and out of a demo's options."""

from __future__ import annotations

import base64
import enum
import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

import pytest
import typer
from PIL import Image
from pydantic import BaseModel, Field, create_model
from typer.testing import CliRunner

from realtime_engine.cli.console import CommandError
from realtime_engine.cli.flags import (
    attribute_texts,
    config_from,
    config_parameters,
    field_parameters,
    fields_from,
    flag_of,
    option_parameters,
    options_from,
    variable_of,
)
from realtime_engine.cli.run import RunConfig
from realtime_engine.cli.serve import ServeConfig
from realtime_engine.infra.webrtc import IceServer
from realtime_engine.server import ServerConfig


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Options(BaseModel):
    players: int = Field(4, ge=1, description="How many.")
    speed: float | None = None
    colour: Colour = Colour.RED
    mode: Literal["calm", "wild"] = "calm"
    fast: bool = False
    sizes: list[int] = Field(default_factory=lambda: [1])
    weights: str


def parse(parameters: list[inspect.Parameter], *arguments: str, **environment: str) -> dict[str, Any]:
    """What a command with these flags is called with."""
    seen: dict[str, Any] = {}

    def command(**values: Any) -> None:
        seen.update(values)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app = typer.Typer(add_completion=False)
    app.command()(command)
    result = CliRunner().invoke(app, list(arguments), env=environment)
    assert result.exit_code == 0, result.output
    return seen


def test_no_flags_give_the_default_configuration() -> None:
    assert config_from(parse(config_parameters())) == ServerConfig()


def test_every_field_of_the_configuration_has_a_flag_with_a_text() -> None:
    names = [field.name for field in fields(ServerConfig)]
    assert [parameter.name for parameter in config_parameters()] == names
    assert all(attribute_texts(ServerConfig)[name] for name in names)


def test_the_texts_of_flags_are_plain() -> None:
    texts = {each.name: each.default.help for each in config_parameters()}
    assert not [name for name, text in texts.items() if "`" in text]
    assert "Default" not in texts["root_path"]
    assert texts["lobby"].startswith("on shows every client")


def test_the_command_adds_flags_with_texts() -> None:
    own = {parameter.name: parameter.default.help for parameter in config_parameters(ServeConfig)}
    assert [*own] == [field.name for field in fields(ServeConfig)] and all(own.values())
    assert own["share"].startswith("Print how to publish")


def test_host_and_port_have_texts_of_their_own() -> None:
    texts = {parameter.name: parameter.default.help for parameter in config_parameters()}
    assert texts["host"] == "Address to listen on; 0.0.0.0 listens on all interfaces. Default: 127.0.0.1."
    assert texts["port"] == "Port to listen on; 0 picks a free one. Default: 8000."


def test_defaults_of_the_server_and_of_a_demo_are_shown_alike() -> None:
    parameters = {parameter.name: parameter.default for parameter in config_parameters() + option_parameters(Options)}
    assert not any(option.show_default for option in parameters.values())
    assert parameters["heartbeat_s"].help.endswith(". Default: 1.0.")
    assert parameters["open"].help.endswith(". Default: false.")
    assert "Default" not in parameters["token"].help
    assert parameters["players"].help == "How many. Default: 4."
    assert parameters["colour"].help == "One of red, blue. Default: red."
    assert parameters["fast"].help == "Default: false."
    assert all("Default" not in parameters[name].help for name in ("speed", "sizes", "weights"))


def test_flags_reach_the_configuration() -> None:
    arguments = ["--host", "0.0.0.0", "--port", "81", "--open", "--idle-timeout", "5", "--bitrate", "90000"]
    arguments += ["--ice-server", "stun:a.example", "--ice-server", "turn:b.example,me,secret"]
    arguments += ["--ice-server", "turn:c.example", "--turn-secret", "north", "--relay-only"]
    arguments += ["--udp-ports", "50000-50100", "--public-address", "203.0.113.5"]
    arguments += ["--allowed-origin", "https://example.org", "--encoder", "software"]
    assert config_from(parse(config_parameters(), *arguments)) == ServerConfig(
        host="0.0.0.0",
        port=81,
        open=True,
        idle_timeout_s=5.0,
        bitrate=90000,
        encoder="software",
        ice_servers=(
            IceServer("stun:a.example"),
            IceServer("turn:b.example", "me", "secret"),
            IceServer("turn:c.example"),
        ),
        turn_secret="north",
        relay_only=True,
        udp_ports="50000-50100",
        public_address="203.0.113.5",
        allowed_origins=("https://example.org",),
    )


def test_the_environment_reaches_the_configuration_and_a_flag_wins_over_it() -> None:
    environment = {"REALTIME_ENGINE_PORT": "81", "REALTIME_ENGINE_IDLE_TIMEOUT": "5", "REALTIME_ENGINE_OPEN": "1"}
    config = config_from(parse(config_parameters(), "--port", "82", **environment))
    assert (config.port, config.idle_timeout_s, config.open) == (82, 5.0, True)


def test_a_wrong_configuration_is_an_error_for_people() -> None:
    with pytest.raises(CommandError, match="jpeg_quality must be"):
        config_from(parse(config_parameters(), "--jpeg-quality", "101"))


def test_options_are_what_was_given_and_the_models_own_defaults() -> None:
    options = options_from(Options, parse(option_parameters(Options), "--weights", "a.bin"))
    assert options == Options(weights="a.bin")
    assert options.model_fields_set == {"weights"}


def test_options_of_all_kinds() -> None:
    arguments = ["--players", "8", "--speed", "1.5", "--colour", "blue", "--mode", "wild", "--fast"]
    arguments += ["--sizes", "[1, 2]", "--weights", "a.bin"]
    assert options_from(Options, parse(option_parameters(Options), *arguments)) == Options(
        players=8, speed=1.5, colour=Colour.BLUE, mode="wild", fast=True, sizes=[1, 2], weights="a.bin"
    )


def test_the_environment_reaches_the_options() -> None:
    values = parse(option_parameters(Options), REALTIME_ENGINE_PLAYERS="3", REALTIME_ENGINE_WEIGHTS="b.bin")
    assert options_from(Options, values) == Options(players=3, weights="b.bin")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--weights: Field required"),
        (["--weights", "a", "--players", "0"], "--players: Input should be greater than or equal to 1, got 0"),
        (["--weights", "a", "--colour", "green"], "--colour: Input should be 'red' or 'blue', got 'green'"),
        (["--weights", "a", "--sizes", "1,"], "--sizes: expected JSON, got '1,'"),
    ],
)
def test_wrong_options_name_the_flag(arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError) as caught:
        options_from(Options, parse(option_parameters(Options), *arguments))
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["port", "idle_timeout", "demo", "log_level"])
def test_an_option_may_not_hide_one_of_serve_itself(name: str) -> None:
    with pytest.raises(CommandError, match=repr(name)):
        option_parameters(create_model("Clashing", **{name: (int, 1)}))  # type: ignore[call-overload]


def test_names() -> None:
    assert flag_of("frames_per_chunk") == "--frames-per-chunk"
    assert flag_of("idle_timeout_s") == "--idle-timeout"
    assert variable_of("--idle-timeout") == "REALTIME_ENGINE_IDLE_TIMEOUT"


class Fields(BaseModel):
    prompt: str = ""
    image: str | None = Field(None, json_schema_extra={"contentMediaType": "image/*"})
    strength: float = 0.5
    sizes: list[int] = Field(default_factory=list)
    trace: bool = False
    width: int = 3


class FieldsOptions(BaseModel):
    width: int = 640


def given(*arguments: str) -> dict[str, Any]:
    return fields_from(Fields, parse(field_parameters(Fields, RunConfig, FieldsOptions), *arguments))


def test_only_what_was_given_is_set() -> None:
    assert given() == {}
    assert given("--prompt", "ice", "--strength", "0.25", "--sizes", "[1, 2]") == {
        "prompt": "ice",
        "strength": 0.25,
        "sizes": [1, 2],
    }


def test_names_that_are_taken_say_that_they_are_fields() -> None:
    assert given("--field-trace", "--field-width", "4") == {"trace": True, "width": 4}


def test_text_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("\n a castle \nanother\n")
    assert given("--prompt", f"@{tmp_path}/prompts.txt") == {"prompt": "a castle"}
    with pytest.raises(CommandError, match="cannot read /nowhere: No such file"):
        given("--prompt", "@/nowhere")


def test_a_picture_goes_as_the_page_sends_it(tmp_path: Path) -> None:
    path = tmp_path / "one.png"
    Image.new("RGB", (4, 4), "red").save(path)
    head, _, data = given("--image", str(path))["image"].partition(",")
    assert head == "data:image/png;base64" and base64.b64decode(data) == path.read_bytes()
    assert given("--image", "data:image/png;base64,AAAA") == {"image": "data:image/png;base64,AAAA"}
    path.write_text("no picture")
    with pytest.raises(CommandError, match=r"one\.png: it is not a picture"):
        given("--image", str(path))


def test_json_that_is_none_is_named() -> None:
    with pytest.raises(CommandError, match="--sizes: expected JSON, got 'one'"):
        given("--sizes", "one")
