"""What can be known of the container files without a container engine."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from realtime_engine.cli.flags import flag_of, variable_of
from realtime_engine.infra.webrtc import UdpPorts
from realtime_engine.server import ServerConfig

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
SERVE = ["serve", "maze", "--host", "0.0.0.0", "--open"]


def copied() -> list[str]:
    """What the Dockerfile copies out of the repository."""
    lines = re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1]]


def test_what_the_dockerfile_copies_exists_and_is_not_ignored() -> None:
    let_in = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert copied()
    assert [source for source in copied() if not (ROOT / source).exists()] == []
    assert sorted(copied()) == sorted(let_in)


def test_the_container_serves_the_maze_as_a_plain_user_and_tells_its_health() -> None:
    final = DOCKERFILE.rpartition("FROM ")[2]
    (command,) = re.findall(r"^CMD (.*)$", final, re.MULTILINE)
    assert json.loads(command) == SERVE
    assert re.search(r"^USER engine$", final, re.MULTILINE)
    assert "/healthz" in final.partition("HEALTHCHECK")[2]


@pytest.mark.parametrize("name", ["compose.cpu.yml", "compose.cuda.yml"])
def test_a_compose_file_builds_this_repository_and_publishes_to_this_machine_only(name: str) -> None:
    composed: dict[str, Any] = yaml.safe_load((ROOT / "docker" / name).read_text())
    (service,) = composed["services"].values()
    assert (ROOT / "docker" / service["build"]["context"] / "Dockerfile").resolve() == ROOT / "Dockerfile"
    assert [part.replace("${DEMO:-maze}", "maze") for part in service["command"]] == SERVE
    assert service["ports"] == ["${BIND:-127.0.0.1}:${PORT:-8000}:8000"]
    assert set(service["build"].get("args", {})) <= set(re.findall(r"^ARG (\w+)", DOCKERFILE, re.MULTILINE))


def test_the_ports_that_are_published_are_those_that_the_server_takes() -> None:
    composed: dict[str, Any] = yaml.safe_load((ROOT / "docker" / "compose.webrtc.yml").read_text())
    service = composed["services"]["demo"]
    variables = {variable_of(flag_of(field.name)) for field in fields(ServerConfig)}
    assert set(service["environment"]) <= variables
    ports = service["environment"]["REALTIME_ENGINE_UDP_PORTS"]
    assert service["ports"] == [f"{ports}:{ports}/udp"]
    assert ports in (ROOT / "docs" / "deploying.md").read_text()
    UdpPorts.parse(ports)
