"""Dashboard and alerts use metrics that the server exports, and the documents list every metric."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from .server.support import in_process

ROOT = Path(__file__).parents[1]
MONITORING = ROOT / "docker" / "monitoring"
NAME = re.compile(r"\brealtime_engine_\w+")


def asked_for() -> dict[str, set[str]]:
    """Expression -> the metrics that it names, of dashboard and alerts."""
    dashboard = json.loads((MONITORING / "grafana" / "dashboards" / "realtime-engine.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    expressions += [variable["query"]["query"] for variable in dashboard["templating"]["list"][:2]]
    alerts = yaml.safe_load((MONITORING / "alerts.yml").read_text())
    expressions += [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]
    return {expression: set(NAME.findall(expression)) for expression in expressions}


async def served() -> set[str]:
    async with in_process() as running:
        owned = await running.create()
        assert owned.id
        text = (await running.client.get("/metrics")).text
    return set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))


async def test_what_is_asked_for_exists() -> None:
    known = await served()
    assert len(asked_for()) > 25
    assert {name for names in asked_for().values() for name in names} <= known


async def test_each_metric_is_in_the_documents() -> None:
    documents = (ROOT / "docs" / "http.md").read_text() + (ROOT / "docs" / "latency.md").read_text()
    missing = [name for name in await served() if name.removeprefix("realtime_engine_") not in documents]
    assert missing == []


def test_expressions_are_whole() -> None:
    for expression in asked_for():
        for opening, closing in ("()", "{}", "[]"):
            assert expression.count(opening) == expression.count(closing), expression


def test_each_alert_has_an_example() -> None:
    alerts = yaml.safe_load((MONITORING / "alerts.yml").read_text())
    examples = yaml.safe_load((MONITORING / "alerts_test.yml").read_text())
    named = [rule["alert"] for group in alerts["groups"] for rule in group["rules"]]
    tested = [case["alertname"] for test in examples["tests"] for case in test["alert_rule_test"] if case["exp_alerts"]]
    assert sorted(named) == sorted(tested)


def test_alerts_fire_as_in_their_examples() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool (Prometheus) is not on the PATH")
    ran = subprocess.run(
        [promtool, "test", "rules", "alerts_test.yml"], cwd=MONITORING, capture_output=True, text=True, timeout=30
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_files_that_compose_mounts_exist() -> None:
    composed = yaml.safe_load((ROOT / "docker" / "compose.monitoring.yml").read_text())
    mounted = [volume for service in composed["services"].values() for volume in service["volumes"]]
    paths = [volume.split(":")[0] for volume in mounted if volume.startswith(".")]
    assert len(paths) == 4 and all((ROOT / "docker" / path).exists() for path in paths)
    for service in composed["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
