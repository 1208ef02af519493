"""Shared by all tests: settings of hypothesis, the benchmark graphs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile(
    "default",
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("default")


@pytest.fixture(scope="session")
def benchmark():
    """Load one of the five benchmark graphs, or skip where it is not at hand."""
    import gelato

    def load(name: str):
        folder = os.environ.get("GELATO_DATA")
        if name != "citeseer" and not folder:
            pytest.skip("GELATO_DATA names no folder with the benchmark graphs")
        if folder and not (Path(folder) / f"{name}.npz").exists():
            pytest.skip(f"GELATO_DATA has no {name}.npz")
        return gelato.load_dataset(name)

    return load
