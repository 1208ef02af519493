"""Print which modules of gelato turn two csv files into a Graph, and how many.

Counted are the modules whose functions run during ``gelato.read_graph``, imports
aside. ``docs/architecture.md`` promises at most eight.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import gelato

EDGES = "source,target,weight,time\nanna,ben,2,2020-01-01\nben,carla,1,2020-02-01\n"
ATTRIBUTES = "id,age,team\nanna,31,red\nben,44,blue\ncarla,27,red\n"


def modules_of_reading() -> list[str]:
    """Return the names of the modules that read_graph runs, sorted."""
    seen: set[str] = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and frame.f_code.co_name != "<module>":
            seen.add(name)

    with tempfile.TemporaryDirectory() as folder:
        edges, attributes = Path(folder, "edges.csv"), Path(folder, "attributes.csv")
        edges.write_text(EDGES)
        attributes.write_text(ATTRIBUTES)
        gelato.read_graph(edges, attributes=attributes)  # imports what it needs
        sys.setprofile(watch)
        try:
            gelato.read_graph(edges, attributes=attributes)
        finally:
            sys.setprofile(None)
    return sorted(name for name in seen if name.startswith("gelato."))


if __name__ == "__main__":
    found = modules_of_reading()
    sys.stdout.write(f"{len(found)} modules: {', '.join(found)}\n")
