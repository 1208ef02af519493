"""The shape of the package: what ``scripts/house.py`` counts stays within limits."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Limits that have been reached; the script shows all of them.
HELD = (
    "one importer, without later ones",
    "modules of a training step",
    "modules from csv to Graph",
    "top-level imports of resource or fcntl",
)


def _script():
    path = ROOT / "scripts" / "house.py"
    spec = importlib.util.spec_from_file_location("house", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["house"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


house = _script()


@pytest.fixture(scope="module")
def every():
    return house.modules()


@pytest.fixture(scope="module")
def counted(every):
    return house.numbers(every)


def test_what_has_been_reached_is_kept(counted):
    for what in HELD:
        found = counted[what]
        count = found if isinstance(found, int) else len(found)
        assert count <= house.LIMITS[what], (what, found)


def test_every_limit_is_of_something_counted(counted):
    assert set(house.LIMITS) <= set(counted)


def test_what_came_later_is_there(every):
    """A renamed file would count as planned, and nobody would notice."""
    places = ["/".join(module.place) for module in every.values()]
    for later in house.LATER:
        assert any(place.startswith(later) for place in places), later


def test_what_runs_is_seen(counted):
    step = counted["modules of a training step"]
    assert "gelato.training.loop" in step
    assert any(name.startswith("gelato.kernels.") for name in step)
    reading = counted["modules from csv to Graph"]
    assert {"gelato.graph.graph", "gelato.io.read"} <= set(reading)


def test_a_name_from_a_door_belongs_to_the_module_that_defines_it(every):
    found = house.importers(every)
    assert "gelato.models.base" in found["gelato.graph.graph"]
    assert "gelato.graph" not in found["gelato.graph.graph"]
    # The registry and the front door name modules as text.
    assert "gelato.models.registry" in found["gelato.baselines.gae"]


def test_a_renamed_step_is_not_taken_for_an_empty_one():
    with pytest.raises(LookupError, match="renamed"):
        house._modules_run(lambda: None, within=("gelato.training.loop", "_none"))
