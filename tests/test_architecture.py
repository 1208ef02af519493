"""The page on the architecture says what is there: rooms, layers, functions."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "gelato"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
PICTURE = (ROOT / "docs" / "images" / "rooms.svg").read_text("utf-8")
# Not rooms: the front door, the version, `python -m gelato`.
DOORS = {"__init__", "__main__", "version"}


def layers():
    """Return the rooms of every layer that import-linter holds, uppermost first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (contract,) = (x for x in contracts if x["type"] == "layers")
    return [re.split(r"\s*[:|]\s*", layer) for layer in contract["layers"]]


def rooms():
    """Return the folders and single files below the package, as the page has them."""
    folders = {f"{path.parent.name}/" for path in SOURCE.glob("*/__init__.py")}
    files = {path.name for path in SOURCE.glob("*.py") if path.stem not in DOORS}
    return folders | files


def named():
    """Return the dotted names in the text that start with a room."""
    known = "|".join(sorted(room.removesuffix(".py").rstrip("/") for room in rooms()))
    return re.findall(rf"`((?:{known})\.(?!py`)[\w.]+)`", PAGE)


def exists(dotted):
    """Tell whether a module, or a name that one defines, is there."""
    place, parts = SOURCE, dotted.split(".")
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    if not parts:
        return True
    file = place / f"{parts.pop(0)}.py"
    return file.is_file() and _defines(ast.parse(file.read_text("utf-8")), parts)


def _defines(tree, parts):
    for part in parts:
        kinds = ast.FunctionDef | ast.ClassDef
        found = [x for x in tree.body if isinstance(x, kinds) and x.name == part]
        if not found:
            return False
        tree = found[0]
    return True


def test_every_room_is_in_the_table_in_the_order_of_the_layers():
    listed = re.findall(r"^\| `([\w./]+)` \|", PAGE, flags=re.M)
    assert set(listed) == rooms()
    ordered = [room for layer in layers() for room in layer]
    assert [room.removesuffix(".py").rstrip("/") for room in listed] == ordered


def test_every_room_is_in_the_picture():
    for layer in layers():
        for room in layer:
            assert f">{room}<" in PICTURE, f"{room}: run scripts/draw_rooms.py"
    drawn = re.findall(r">([a-z_]+)</text>", PICTURE)
    assert set(drawn) == {room for layer in layers() for room in layer}


def test_modules_and_functions_of_the_three_ways_exist():
    found = named()
    assert len(found) > 25
    assert [name for name in found if not exists(name)] == []


def test_a_name_that_is_gone_is_noticed():
    assert exists("ranking.evaluate.Evaluation.ap")
    assert not exists("ranking.evaluate.Evaluation.none")
    assert not exists("ranking.none")


def test_each_way_is_walked_in_steps():
    for title in ("From a file to links", "One training step", "One evaluation"):
        section = re.search(rf"^### {title}.*?(?=^##)", PAGE, flags=re.M | re.S)[0]
        steps = re.findall(r"^\d\. ", section, flags=re.M)
        assert 5 <= len(steps) <= 9
        assert re.search(r"`\w+\.\w+\.\w+", section)
