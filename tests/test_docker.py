"""The container files, as far as they can be checked without a container engine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from realtime_engine.cli.flags import flag_of, variable_of
from realtime_engine.infra.webrtc import UdpPorts
from realtime_engine.integrations.dream import demo as dream
from realtime_engine.integrations.registry import BUILT_IN
from realtime_engine.server import ServerConfig

ROOT = Path(__file__).parents[1]
DOCKER = ROOT / "docker"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
FINAL_STAGE = DOCKERFILE.rpartition("\nFROM ")[2]
SERVED = ("compose.cpu.yml", "compose.cuda.yml")
VARIABLES = {variable_of(flag_of(field.name)) for field in fields(ServerConfig)}
_TIMEOUT_S = 30.0


def substituted(text: str, **variables: str) -> str:
    """Replace ``${NAME:-default}``, ``${NAME-default}`` and ``${NAME:?message}`` as Compose does."""
    pattern = r"\$\{(\w+)(?::?[-?]([^${}]*))?\}"
    return re.sub(pattern, lambda found: variables.get(found[1], found[2] or ""), text)


def composed(name: str, **variables: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(substituted((DOCKER / name).read_text(), **variables))
    return loaded


def demo_service(name: str, **variables: str) -> dict[str, Any]:
    service: dict[str, Any] = composed(name, **variables)["services"]["demo"]
    return service


def sources() -> list[str]:
    """The files and folders that the Dockerfile copies from the repository."""
    lines = re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1]]


def image_environment() -> dict[str, str]:
    instruction = FINAL_STAGE.partition("\nENV ")[2].replace("\\\n", " ").partition("\n")[0]
    return dict(re.findall(r'(\w+)=("[^"]*"|\S+)', instruction))


def instruction(name: str) -> list[str]:
    """The arguments of an instruction of the final stage in exec form."""
    (arguments,) = re.findall(rf"^{name} .*?(\[.*\])$", FINAL_STAGE.replace("\\\n", " "), re.MULTILINE)
    parsed: list[str] = json.loads(arguments)
    return parsed


def test_the_build_context_holds_what_the_dockerfile_copies() -> None:
    included = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert sources()
    assert [source for source in sources() if not (ROOT / source).exists()] == []
    assert sorted(sources()) == sorted(included)


def test_the_image_runs_as_an_unprivileged_user() -> None:
    assert instruction("ENTRYPOINT") == ["realtime-engine"]
    assert instruction("CMD") == ["serve", "maze"]
    assert re.findall(r"^USER (.*)$", FINAL_STAGE, re.MULTILINE) == ["engine"]


def test_the_image_does_not_start_without_a_token() -> None:
    environment = {**os.environ, **image_environment(), "PYTHONPATH": str(ROOT / "src")}
    assert {name for name in environment if name.startswith("REALTIME_ENGINE_")} <= VARIABLES
    environment["PATH"] = os.environ["PATH"]
    command = [sys.executable, "-m", "realtime_engine", *instruction("CMD")]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert ended.returncode == 2
    assert "set a token" in ended.stderr


@contextmanager
def answering(status: int) -> Iterator[int]:
    """An HTTP server that answers /healthz with this status; yields its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def is_healthy(port: int) -> bool:
    program, *arguments = instruction("HEALTHCHECK")
    assert program == "python"
    environment = {**os.environ, "REALTIME_ENGINE_PORT": str(port), "http_proxy": "http://127.0.0.1:9"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, stderr=subprocess.DEVNULL, timeout=_TIMEOUT_S).returncode == 0


def test_the_health_check_follows_the_configured_port() -> None:
    with answering(200) as port:
        assert is_healthy(port)
    assert not is_healthy(port)


def test_a_server_that_answers_with_an_error_is_not_healthy() -> None:
    with answering(500) as port:
        assert not is_healthy(port)


def listed(*extras: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "docker/requirements.py", ",".join(extras)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)


def test_the_requirements_of_an_image_are_those_of_its_extras() -> None:
    names = [re.match(r"[\w-]+", line)[0] for line in listed("serve", "torch").stdout.splitlines()]  # type: ignore[index]
    assert {"numpy", "uvicorn", "torch"} <= set(names)
    assert "torch" not in listed("serve").stdout
    unknown = listed("serve", "tensorflow")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert unknown.stderr.startswith("no such extra: tensorflow (there are: serve, torch")


@pytest.mark.parametrize("name", SERVED)
def test_a_compose_file_builds_this_repository(name: str) -> None:
    build = demo_service(name)["build"]
    assert (DOCKER / build["context"] / "Dockerfile").resolve() == ROOT / "Dockerfile"
    assert set(build["args"]) <= set(re.findall(r"^ARG (\w+)", DOCKERFILE, re.MULTILINE))


@pytest.mark.parametrize("name", SERVED)
def test_a_compose_file_reads_the_token_from_a_secret(name: str) -> None:
    service = demo_service(name)
    environment = service["environment"]
    options = {variable_of(flag_of(option)) for option in dream.Options.model_fields}
    assert set(environment) <= VARIABLES | options
    assert environment["REALTIME_ENGINE_TOKEN_FILE"] == "/run/secrets/token"
    assert service["secrets"] == ["token"]
    assert composed(name)["secrets"] == {"token": {"file": "./secrets/token"}}
    assert "--open" not in service["command"] and "REALTIME_ENGINE_OPEN" not in environment
    ignored = (DOCKER / ".gitignore").read_text().split()
    assert {"/secrets/", f"/{service['env_file'][0]['path']}"} <= set(ignored)


@pytest.mark.parametrize("name", SERVED)
def test_a_compose_file_serves_a_file_of_the_user(name: str) -> None:
    service = demo_service(name, DEMO="demos/mine.py:demo", DEMOS="/srv/demos")
    assert service["command"] == ["serve", "demos/mine.py:demo"]
    (bind,) = (volume for volume in service["volumes"] if isinstance(volume, dict))
    assert (bind["source"], bind["target"], bind["read_only"]) == ("/srv/demos", "/home/engine/demos", True)
    (default,) = (volume for volume in demo_service(name)["volumes"] if isinstance(volume, dict))
    assert (DOCKER / default["source"]).is_dir()


@pytest.mark.parametrize("name", [*SERVED, "compose.webrtc.yml", "compose.monitoring.yml"])
def test_ports_are_published_on_loopback(name: str) -> None:
    ports = [port for service in composed(name)["services"].values() for port in service["ports"]]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


@pytest.mark.parametrize("name", SERVED)
def test_the_port_inside_is_the_same_whatever_is_published(name: str) -> None:
    service = demo_service(name, BIND="0.0.0.0", PORT="9000")
    assert service["ports"] == [f"0.0.0.0:9000:{service['environment']['REALTIME_ENGINE_PORT']}"]


def test_the_cpu_image_can_have_torch_without_cuda() -> None:
    build = demo_service("compose.cpu.yml", EXTRAS="serve,torch")["build"]
    assert build["args"]["EXTRAS"] == "serve,torch"
    assert build["args"]["TORCH_INDEX"].endswith("/whl/cpu")


def test_the_gpu_is_used_without_further_settings() -> None:
    service = demo_service("compose.cuda.yml")
    assert service["command"] == ["serve", "dream"] and "dream" in BUILT_IN
    assert service["environment"][variable_of(flag_of("device"))] == "cuda"
    assert "device" in dream.Options.model_fields
    assert service["build"]["args"]["EXTRAS"].split(",") == ["serve", "torch"]
    assert service["build"]["args"]["SYSTEM_PACKAGES"].split() == ["g++"]  # for torch.compile
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert device["driver"] == "nvidia"
    assert {"gpu", "compute", "utility", "video"} <= set(device["capabilities"])  # video mounts NVENC


def test_the_ports_that_are_published_are_those_that_the_server_takes() -> None:
    service = demo_service("compose.webrtc.yml", PUBLIC_ADDRESS="192.0.2.7", BIND="0.0.0.0")
    assert set(service["environment"]) <= VARIABLES
    ports = service["environment"]["REALTIME_ENGINE_UDP_PORTS"]
    assert service["ports"] == [f"0.0.0.0:{ports}:{ports}/udp"]
    assert ports in (ROOT / "docs" / "deploying.md").read_text()
    UdpPorts.parse(ports)


def test_prometheus_sends_the_token_to_the_port_of_the_server() -> None:
    (scrape,) = yaml.safe_load((DOCKER / "monitoring" / "prometheus.yml").read_text())["scrape_configs"]
    prometheus = composed("compose.monitoring.yml")["services"]["prometheus"]
    assert scrape["authorization"] == {"type": "Bearer", "credentials_file": "/run/secrets/token"}
    assert prometheus["secrets"] == ["token"]
    (target,) = scrape["static_configs"][0]["targets"]
    for name in SERVED:
        assert target == f"demo:{demo_service(name)['environment']['REALTIME_ENGINE_PORT']}"


def test_hosted_ci_runs_the_tests_on_every_supported_python_and_builds_the_image() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    scripts = {name: "\n".join(step.get("run", "") for step in job["steps"]) for name, job in jobs.items()}
    assert ".ci/run" in scripts["all"]
    assert jobs["core"]["strategy"]["matrix"]["python"] == ["3.10", "3.11", "3.12", "3.13"]
    assert 'requires-python = ">=3.10"' in (ROOT / "pyproject.toml").read_text()
    mentioned = re.findall(r"docker/compose\.\w+\.yml", scripts["image"])
    assert {path.name for path in DOCKER.glob("compose.*.yml")} == {Path(path).name for path in mentioned}
    assert "docker/first_frame.py" in scripts["image"]
