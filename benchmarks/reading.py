"""Reading edge lists from Parquet, beside the plain way, each in a fresh process.

The plain way reads the file with polars, numbers the ids with numpy (pandas for text),
and sorts the edges: some lines that anybody would write. Both give the same edges.
Files have random edges between a fifth as many nodes, and are written in pieces. A way
whose resident memory passes ``--limit`` gigabytes is stopped, and recorded as null.
Writes ``results/benchmarks/reading.json``; a new run replaces the sizes it measured.

    python benchmarks/reading.py [1000000 5000000 20000000 50000000] [--kinds int,text]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from gelato.io import write_text_atomic
from gelato.storage import environment

TARGET = (
    Path(__file__).resolve().parent.parent / "results" / "benchmarks" / "reading.json"
)
SIZES = (1_000_000, 5_000_000, 20_000_000, 50_000_000)
PIECE = 1_000_000
WAYS = {
    "gelato": "edges = read_graph(path).edges",
    "plain": """
frame = pl.read_parquet(path)
ends = [frame["source"], frame["target"]]
if kind == "int":
    both = np.concatenate([end.to_numpy() for end in ends])
    ids, codes = np.unique(both, return_inverse=True)
else:
    codes, ids = pd.factorize(pd.concat([end.to_pandas() for end in ends]), sort=True)
pairs = np.sort(codes.reshape(2, -1).T, axis=1)
pairs = pairs[pairs[:, 0] != pairs[:, 1]]
keys = np.unique(pairs[:, 0] * len(ids) + pairs[:, 1])
edges = np.stack([keys // len(ids), keys % len(ids)], axis=1)
""",
}
MEASURED = """
import hashlib, json, sys, time
import numpy as np, polars as pl
from gelato.io import read_graph
from gelato.storage import peak_bytes
path, kind, way = sys.argv[1:]
if way == "plain":
    import pandas as pd
started = time.perf_counter()
{code}
seconds, peak = time.perf_counter() - started, peak_bytes()
same = hashlib.sha256(edges).hexdigest()
print(json.dumps([seconds, peak / 1e6, len(edges), same]))
"""


def write_edges(path: Path, rows: int, kind: str) -> None:
    """Write random edges, one piece at a time."""
    rng = np.random.default_rng(0)
    name = {"int": pa.int64(), "text": pa.string()}[kind]
    schema = pa.schema([("source", name), ("target", name)])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for at in range(0, rows, PIECE):
            ends = rng.integers(0, rows // 5, (2, min(PIECE, rows - at)))
            columns = [pl.Series(end) for end in ends]
            if kind == "text":
                columns = ["node-" + c.cast(pl.String) for c in columns]
            arrays = [column.to_arrow().cast(name) for column in columns]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def measure(path: Path, kind: str, way: str, limit: float) -> dict[str, Any] | None:
    """Return what a fresh process needs, None if that is more than the limit."""
    command = [sys.executable, "-c", MEASURED.format(code=WAYS[way])]
    with subprocess.Popen(
        [*command, str(path), kind, way], stdout=subprocess.PIPE, text=True
    ) as child:
        watched = psutil.Process(child.pid)
        while child.poll() is None:
            with contextlib.suppress(psutil.Error):  # it has just ended
                if watched.memory_info().rss > limit * 1e9:
                    child.kill()
                    child.wait()
                    return None
            time.sleep(0.05)
        assert child.stdout is not None
        printed = child.stdout.read()
    if child.returncode:
        raise SystemExit(f"{way} failed on {kind} ids: see above.")
    seconds, peak, edges, same = json.loads(printed)
    return {"seconds": seconds, "peak_mb": peak, "edges": edges, "edges_sha256": same}


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--kinds", default="int,text")
    parser.add_argument("--limit", type=float, default=6.0, help="gigabytes")
    options = parser.parse_args()
    told = json.loads(TARGET.read_text()) if TARGET.exists() else {"files": {}}
    for kind in options.kinds.split(","):
        for rows in options.sizes:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "edges.parquet"
                write_edges(path, rows, kind)
                found = {w: measure(path, kind, w, options.limit) for w in WAYS}
                size = path.stat().st_size / 1e6
            ours, plain = found["gelato"], found["plain"]
            record: dict[str, Any] = {"rows": rows, "ids": kind, "file_mb": size}
            record |= {"limit_gb": options.limit, **found}
            if ours and plain:
                assert ours["edges_sha256"] == plain["edges_sha256"]
                record["time_ratio"] = ours["seconds"] / plain["seconds"]
                record["memory_ratio"] = ours["peak_mb"] / plain["peak_mb"]
            told["files"][f"{kind} {rows}"] = record
            told["environment"] = environment()
            write_text_atomic(TARGET, json.dumps(told, indent=2) + "\n")
            print(json.dumps(record))


if __name__ == "__main__":
    main()
