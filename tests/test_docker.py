"""Image and compose file, read where there is no engine that runs them: what they name is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from backend.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
COMPOSE = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())
DOCKERFILE = re.sub(r"(?m)^#.*\n", "", (ROOT / "docker" / "Dockerfile").read_text()).replace("\\\n", " ")
STEPS = [
    (word, rest.strip())
    for word, _, rest in (line.partition(" ") for line in DOCKERFILE.splitlines())
    if word
]
SETTINGS = {f"TRAINYARD_{name.upper()}" for name in Settings.model_fields}
OF_COMPOSE = {"TRAINYARD_PUBLISH"}
"""What is set for the compose file itself."""
ADDED = {"page": {"/build/dist"}, "package": {"/opt/venv", "/app"}}
"""What a stage makes, which another one copies."""


def stages() -> dict[str, list[tuple[str, str]]]:
    """The steps of each stage by its name, in their order."""
    found: dict[str, list[tuple[str, str]]] = {}
    for word, rest in STEPS:
        if word == "FROM":
            found[rest.rpartition(" AS ")[2]] = current = []
        elif found:
            current.append((word, rest))
    return found


def named(text: str) -> set[str]:
    """The variables of ours in it."""
    return set(re.findall(r"\bTRAINYARD_[A-Z_]+", text))


def test_each_stage_begins_where_there_is_something() -> None:
    arguments = dict(rest.split("=", 1) for word, rest in STEPS if word == "ARG" and "=" in rest)
    known: set[str] = set()
    variants = {
        service["build"]["args"]["VARIANT"] for service in COMPOSE["services"].values() if "build" in service
    }
    assert arguments["VARIANT"] in variants
    for word, rest in STEPS:
        if word != "FROM":
            continue
        base, _, name = rest.partition(" AS ")
        for variant in variants if "${VARIANT}" in base else ("",):
            start = base.replace("${VARIANT}", variant)
            inner = re.fullmatch(r"\$\{(\w+)\}", start)
            assert start in known or (inner is not None and ":" in arguments[inner[1]]), start
        known.add(name)
    assert STEPS[-1][0] == "CMD"


def test_what_is_copied_is_there() -> None:
    found = stages()
    for steps in found.values():
        for word, rest in steps:
            if word != "COPY":
                continue
            *sources, _ = [part for part in rest.split() if not part.startswith("--")]
            stage = re.match(r"--from=(\w+)", rest)
            for source in sources:
                if stage is not None:
                    assert source in ADDED[stage[1]], source
                else:
                    assert (ROOT / source).exists(), source


def test_what_is_installed_has_a_name_of_ours_and_the_image_can_make_hosts() -> None:
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    (asked,) = re.findall(r'"\.\[([\w,]+)\]"', DOCKERFILE)
    assert set(asked.split(",")) <= extras
    assert {"server", "postgres"} <= set(asked.split(","))
    (packages,) = re.findall(r"apt-get install -y --no-install-recommends ([\w ]+)", DOCKERFILE)
    assert {"tini", "iproute2"} <= set(packages.split())


def test_every_variable_is_a_setting() -> None:
    assert named(DOCKERFILE) <= SETTINGS
    text = (ROOT / "docker" / "compose.yaml").read_text()
    assert named(text) - OF_COMPOSE <= SETTINGS
    for service in COMPOSE["services"].values():
        assert named(" ".join(service.get("environment", {}))) <= SETTINGS


@pytest.mark.parametrize("name", sorted(COMPOSE["services"]))
def test_a_service_names_what_is_there(name: str) -> None:
    service: dict[str, Any] = COMPOSE["services"][name]
    if "build" in service:
        context = (ROOT / "docker" / service["build"]["context"]).resolve()
        assert context == ROOT
        assert (context / service["build"]["dockerfile"]).is_file()
    for volume in service.get("volumes", ()):
        source = volume.partition(":")[0]
        assert source in COMPOSE["volumes"], source
    assert set(service.get("depends_on", {})) <= set(COMPOSE["services"])
    for other, how in service.get("depends_on", {}).items():
        if how["condition"] == "service_healthy":
            assert "healthcheck" in COMPOSE["services"][other]
    assert "privileged" not in service


@pytest.mark.parametrize("name", ["server", "server-gpu"])
def test_a_server_wants_a_token_publishes_on_loopback_and_may_little(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["environment"]["TRAINYARD_TOKEN"].startswith("${TRAINYARD_TOKEN:?")
    assert service["ports"] == ["${TRAINYARD_PUBLISH:-127.0.0.1}:${TRAINYARD_PORT:-8000}:8000"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert ("USER", "10001:10001") in stages()["runtime"]
    assert not COMPOSE["services"]["postgres"].get("ports"), "the database is reached by the servers only"
    assert COMPOSE["services"]["postgres"]["environment"]["POSTGRES_PASSWORD"] == "${POSTGRES_PASSWORD:-}"
