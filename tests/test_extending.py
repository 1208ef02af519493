"""docs/extending.md is true: its files are put where it says, and used."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import gelato
import gelato.baselines
import gelato.cli
import gelato.heuristics
from gelato.cli import app
from gelato.cli.app import run
from gelato.errors import InputError, UsageError
from gelato.heuristics import declared
from gelato.models import registry
from gelato.models.registry import load_plugin, unregister
from gelato.parameters import parameters_of
from support.small_graphs import community_graph

PAGE = Path(__file__).parent.parent / "docs" / "extending.md"
FILES = dict(re.findall(r'```python title="([^"]+)"\n(.*?)```', PAGE.read_text(), re.S))


def text_of(end):
    return next(text for name, text in FILES.items() if name.endswith(end))


@pytest.fixture
def edges(tmp_path):
    graph = community_graph()
    rows = "\n".join(f"{a},{b}" for a, b in graph.edges.tolist())
    file = tmp_path / "edges.csv"
    file.write_text(f"a,b\n{rows}\n")
    return str(file)


@pytest.fixture
def house(tmp_path, monkeypatch):
    """Return what puts a file of the page into its room, as if it were there."""
    known = set(sys.modules)

    def put(name):
        room = Path(name).parent.name
        folder = tmp_path / room
        folder.mkdir(exist_ok=True)
        (folder / Path(name).name).write_text(FILES[name])
        package = sys.modules[f"gelato.{room}"]
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
        declared.listed.cache_clear()
        registry._registry.cache_clear()

    yield put
    monkeypatch.undo()
    for name in set(sys.modules) - known:
        if name.startswith("gelato."):
            del sys.modules[name]
    declared.listed.cache_clear()
    registry._registry.cache_clear()


def result(capsys, *arguments):
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_heuristic_is_one_file(house, edges, capsys):
    house("src/gelato/heuristics/scaled.py")
    listed = {row["name"]: row for row in result(capsys, "list")["models"]}
    assert listed["scaled-cn"]["kind"] == "topology"
    graph = community_graph()
    model = gelato.make("scaled-cn", power=1.0).fit(graph)
    assert repr(model) == "ScaledNeighbours(power=1.0)"
    scores = model.score_rows(np.arange(graph.num_nodes))
    np.testing.assert_array_equal(scores, scores.T)
    with pytest.raises(
        UsageError, match="power is 2, but must be a number from 0 to 1"
    ):
        gelato.make("scaled-cn", power=2)
    found = result(capsys, "evaluate", "--edges", edges, "-m", "scaled-cn")
    assert found["model"]["parameters"] == {"power": 0.5}
    split = gelato.split_edges(graph, valid=0.2)
    assert gelato.tune("scaled-cn", split).trials.height == 3


def test_heuristics_are_not_named_as_their_files():
    # The file would hide the function in gelato.heuristics.
    for one in declared.listed().values():
        assert one.module != f"gelato.heuristics.{one.function}"
        assert callable(getattr(gelato.heuristics, one.function))


def test_a_network_is_one_file_and_one_line(house, monkeypatch, capsys, tmp_path):
    line = ast.literal_eval(text_of("models/registry.py").strip())
    monkeypatch.setattr(registry, "_BUILTIN", (*registry._BUILTIN, line))
    house("src/gelato/baselines/one_layer.py")
    split = gelato.split_edges(community_graph())
    model = gelato.make("one-layer", epochs=3, seed=1).fit(split)
    assert len(model.training_.history) == 3
    model.save(tmp_path / "run")
    again = gelato.load(tmp_path / "run")
    rows = np.arange(5)
    np.testing.assert_array_equal(again.score_rows(rows), model.score_rows(rows))
    assert line[0] == type(model).name


def test_a_model_of_one_s_own_on_the_command_line(edges, capsys, tmp_path):
    plugin, own = tmp_path / "one_layer.py", tmp_path / "random_order.py"
    plugin.write_text(text_of("baselines/one_layer.py") + FILES["one_layer.py"])
    own.write_text(FILES["random_order.py"])
    files = ["--plugin", str(plugin), "--plugin", str(own)]
    try:
        names = [row["name"] for row in result(capsys, "list", *files)["models"]]
        assert names[-2:] == ["one-layer", "random-order"]
        data = ["--edges", edges, *files]
        options = ["--set", "epochs=2", "--set", "features=one-hot"]
        folder = str(tmp_path / "run")
        fitted = ["fit", *data, "-m", "one-layer", *options, "-o", folder]
        assert result(capsys, *fitted)["model"]["parameters"]["epochs"] == 2
        assert result(capsys, "predict", folder, *files)["links"]
        found = result(capsys, "evaluate", *data, "-m", "random-order")
        assert found["model"] == {"name": "random-order", "parameters": {}}
    finally:
        unregister("one-layer")
        unregister("random-order")
    assert run(["predict", folder]) == 1
    assert "--plugin FILE" in " ".join(capsys.readouterr().err.split())


def test_plugins_that_cannot_be_loaded(tmp_path):
    with pytest.raises(InputError, match=r"no\.py is not a Python file"):
        load_plugin(tmp_path / "no.py")
    (tmp_path / "bad.py").write_text("1 / 0\n")
    with pytest.raises(InputError, match="ZeroDivisionError"):
        load_plugin(tmp_path / "bad.py")


def test_installed_packages_bring_models(monkeypatch):
    from importlib.metadata import EntryPoint

    point = EntryPoint(
        "brought", "gelato.models.heuristic:CommonNeighbours", "gelato.models"
    )
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    registry._registry.cache_clear()
    try:
        assert repr(gelato.make("brought")) == "CommonNeighbours()"
    finally:
        monkeypatch.undo()
        registry._registry.cache_clear()


def test_a_verb_is_one_file_and_one_line(house, monkeypatch, edges, capsys):
    house("src/gelato/cli/degrees.py")
    monkeypatch.setattr(app, "VERBS", app.VERBS | {"degrees": "degrees"})
    nodes = result(capsys, "degrees", "--edges", edges)["nodes"]
    assert len(nodes) == 5


def test_every_model_is_listed_as_its_class_says():
    for entry in registry.entries():
        made = entry.load()
        assert (made.name, made.summary) == (entry.name, entry.summary)
        assert set(parameters_of(made)) == set(made().get_params())
