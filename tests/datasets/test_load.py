"""Where a benchmark graph comes from: a folder, the package, the cache, a server."""

from __future__ import annotations

import functools
import hashlib
import http.server
import logging
import os
import runpy
import threading
from pathlib import Path

import numpy as np
import pooch
import pytest

from gelato.datasets import (
    cache_folder,
    dataset_path,
    list_datasets,
    load_dataset,
)
from gelato.datasets.catalog import (
    PACKAGE_DATA,
    Dataset,
    RawFile,
    catalog,
    content_digest,
    find,
    raw_names,
)
from gelato.errors import (
    InputError,
    MissingDataError,
    OutputError,
    StoredFileError,
    UnknownNameError,
    UsageError,
)
from gelato.io import read_npz, write_npz
from support.raw_files import random_graph, write_amazon, write_planetoid

SCRIPT = Path(__file__).parents[2] / "scripts" / "build_citeseer.py"
SHARED = os.environ.get("GELATO_DATA")
needs_shared = pytest.mark.skipif(
    SHARED is None, reason="GELATO_DATA does not name the benchmark graphs"
)


class Server(http.server.ThreadingHTTPServer):
    """Serves a folder; counts requests; may cut each file short."""

    requests = 0
    cut = False


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments) -> None:
        pass

    def do_GET(self) -> None:
        self.server.requests += 1
        if not self.server.cut:
            super().do_GET()
            return
        content = Path(self.translate_path(self.path)).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])


@pytest.fixture(autouse=True)
def _own_places(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("GELATO_DATA", raising=False)
    monkeypatch.delenv("GELATO_MIRROR", raising=False)
    monkeypatch.setenv("GELATO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(Handler, directory=str(folder))
    with Server(("127.0.0.1", 0), handler) as running:
        running.folder = folder
        running.url = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def publish(name: str, raw_format: str, folder: Path, base: str) -> Dataset:
    """Write a random graph's raw files and return what a catalog would say of it."""
    graph = random_graph(1, binary=True)
    if raw_format == "amazon":
        write_amazon(folder / f"amazon_electronics_{name}.npz", graph, seed=1)
    else:
        write_planetoid(folder, name, graph, seed=1)
    files = [
        RawFile(
            raw,
            hashlib.sha256((folder / raw).read_bytes()).hexdigest(),
            f"{base}/{raw}",
        )
        for raw in raw_names(name, raw_format)
    ]
    return Dataset(
        name=name,
        num_nodes=graph.num_nodes,
        num_edges=graph.num_edges,
        num_attributes=graph.num_attributes,
        content=content_digest(graph),
        raw_format=raw_format,
        files=tuple(files),
        description="made for a test",
        source="here",
        licence="none needed",
    )


@pytest.fixture(params=["planetoid", "amazon"])
def tiny(request, server, monkeypatch) -> Dataset:
    dataset = publish("tiny", request.param, server.folder, server.url)
    monkeypatch.setitem(catalog(), "tiny", dataset)
    return dataset


# ---------------------------------------------------------------------- downloads
def test_download_converts_once_and_says_nothing(tiny, server, capfd) -> None:
    lines: list[str] = []
    graph = load_dataset("tiny", progress=lines.append)
    assert content_digest(graph) == tiny.content
    assert graph.ids is None
    assert server.requests == len(tiny.files) == len(lines)
    assert lines[0] == f"fetching {tiny.files[0].url}"
    assert capfd.readouterr() == ("", "")

    again = load_dataset("tiny", progress=lines.append)
    assert content_digest(again) == tiny.content
    assert server.requests == len(tiny.files)
    assert dataset_path("tiny") == cache_folder() / "tiny.npz"
    assert {path.name for path in cache_folder().iterdir()} == {"raw", "tiny.npz"}


def test_download_leaves_the_logger_of_pooch_as_it_was(tiny) -> None:
    before = pooch.get_logger().level
    assert before <= logging.INFO
    load_dataset("tiny")
    assert pooch.get_logger().level == before


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_mirror_is_used_instead(tiny, server, monkeypatch, how) -> None:
    (server.folder / "copies").mkdir()
    for file in tiny.files:
        (server.folder / file.name).rename(server.folder / "copies" / file.name)
    mirror = f"{server.url}/copies/"
    if how == "environment":
        monkeypatch.setenv("GELATO_MIRROR", mirror)
        graph = load_dataset("tiny")
    else:
        graph = load_dataset("tiny", mirror=mirror)
    assert content_digest(graph) == tiny.content


def test_mirror_must_be_a_web_address(tiny) -> None:
    with pytest.raises(UsageError, match="not a web address"):
        load_dataset("tiny", mirror="file:///etc")


def kept() -> list[str]:
    return sorted(path.name for path in cache_folder().rglob("*") if path.is_file())


def test_wrong_content_is_refused_and_not_kept(tiny, server) -> None:
    last = tiny.files[-1]
    (server.folder / last.name).write_bytes(b"something else")
    with pytest.raises(StoredFileError, match=f"another file.*{last.sha256}"):
        load_dataset("tiny")
    assert kept() == sorted(file.name for file in tiny.files[:-1])


def test_cut_transfer_is_refused_and_not_kept(tiny, server) -> None:
    server.cut = True
    with pytest.raises(MissingDataError, match="the transfer was cut"):
        load_dataset("tiny")
    assert kept() == []
    server.cut = False
    assert content_digest(load_dataset("tiny")) == tiny.content


def check_advice(message: str, dataset: Dataset) -> None:
    assert "tiny.npz" in message
    assert "GELATO_DATA" in message
    assert str(cache_folder() / "raw") in message
    assert all(file.name in message for file in dataset.files)


def test_absent_file_is_told(tiny, server) -> None:
    (server.folder / tiny.files[0].name).unlink()
    with pytest.raises(MissingDataError, match="HTTP status 404") as caught:
        load_dataset("tiny")
    check_advice(str(caught.value), tiny)


def test_server_down_says_which_file_to_put_where(tiny) -> None:
    with pytest.raises(MissingDataError, match="there is no connection") as caught:
        load_dataset("tiny", mirror="http://127.0.0.1:1")
    check_advice(str(caught.value), tiny)
    assert kept() == []


def test_raw_files_put_by_hand_need_no_server(tiny, server) -> None:
    raw = cache_folder() / "raw"
    raw.mkdir(parents=True)
    for file in tiny.files:
        (server.folder / file.name).rename(raw / file.name)
    graph = load_dataset("tiny", mirror="http://127.0.0.1:1")
    assert content_digest(graph) == tiny.content
    assert server.requests == 0


def test_wrong_raw_file_in_the_cache_is_named(tiny, server) -> None:
    raw = cache_folder() / "raw"
    raw.mkdir(parents=True)
    (raw / tiny.files[0].name).write_bytes(b"half")
    with pytest.raises(StoredFileError, match="Delete it") as caught:
        load_dataset("tiny")
    assert str(raw / tiny.files[0].name) in str(caught.value)
    assert server.requests == 0


def test_cache_that_cannot_be_made_is_told(tiny, tmp_path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GELATO_CACHE", str(tmp_path / "file"))
    with pytest.raises(OutputError, match="GELATO_CACHE"):
        load_dataset("tiny")


def test_conversion_that_gives_another_graph_is_refused(tiny, monkeypatch) -> None:
    wrong = Dataset(**{**vars(tiny), "content": "0" * 16})
    monkeypatch.setitem(catalog(), "tiny", wrong)
    with pytest.raises(StoredFileError, match="labels differ"):
        load_dataset("tiny")
    assert "tiny.npz" not in kept()


# ------------------------------------------------------------------ files on disk
@pytest.mark.parametrize("place", ["folder", "cache"])
def test_damaged_npz_is_refused(tiny, tmp_path, monkeypatch, place) -> None:
    folder = tmp_path / "cache"
    if place == "folder":
        folder = tmp_path / "data"
        monkeypatch.setenv("GELATO_DATA", str(folder))
    folder.mkdir()
    whole = tmp_path / "whole.npz"
    write_npz(random_graph(1, binary=True), whole)
    (folder / "tiny.npz").write_bytes(whole.read_bytes()[:-200])
    with pytest.raises(StoredFileError, match=r"tiny\.npz"):
        load_dataset("tiny")


def test_another_graph_in_the_folder_is_refused(tiny, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("GELATO_DATA", str(tmp_path))
    graph = random_graph(1, binary=True)
    write_npz(graph.with_edges(graph.edges[1:]), tmp_path / "tiny.npz")
    with pytest.raises(StoredFileError, match=r"it has 30 nodes, .* edges"):
        load_dataset("tiny")
    other = random_graph(1, binary=True)
    other.attributes.data[0] = 5
    write_npz(other, tmp_path / "tiny.npz")
    with pytest.raises(StoredFileError, match=r"attributes or labels differ.*from_npz"):
        load_dataset("tiny")


def test_folder_comes_first(tiny, tmp_path, monkeypatch, server) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write_npz(random_graph(1, binary=True), data / "tiny.npz")
    monkeypatch.setenv("GELATO_DATA", str(data))
    assert content_digest(load_dataset("tiny")) == tiny.content
    assert dataset_path("tiny") == data / "tiny.npz"
    assert server.requests == 0


def test_folder_that_is_none_is_told(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("GELATO_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"GELATO_DATA names .*nowhere"):
        load_dataset("citeseer")


# ---------------------------------------------------------------- what is known
def test_list_says_where_each_would_come_from(tiny, tmp_path, monkeypatch) -> None:
    facts = {fact.name: fact for fact in list_datasets()}
    assert list(facts) == ["cora", "citeseer", "pubmed", "photo", "computers", "tiny"]
    assert facts["citeseer"].origin == "package"
    assert facts["cora"].to_dict()["origin"] == "download"
    assert facts["cora"].path is None
    assert (facts["photo"].nodes, facts["photo"].edges) == (7650, 119081)
    load_dataset("tiny")
    (tmp_path / "cora.npz").touch()
    monkeypatch.setenv("GELATO_DATA", str(tmp_path))
    facts = {fact.name: fact for fact in list_datasets()}
    assert facts["tiny"].origin == "cache"
    assert facts["cora"].origin == "folder"
    assert facts["cora"].path == str(tmp_path / "cora.npz")


def test_every_raw_file_has_a_hash_and_a_secure_place() -> None:
    files = [file for dataset in catalog().values() for file in dataset.files]
    assert len(files) == 20
    assert len({file.sha256 for file in files}) == 20
    for file in files:
        assert len(bytes.fromhex(file.sha256)) == 32
        assert file.url.startswith("https://")
        assert file.url.endswith("/" + file.name)


@pytest.mark.parametrize("name", ["Cora", "cite seer", " pubmed", "photos"])
def test_unknown_names_are_guessed(name) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean"):
        find(name)


def test_unknown_name_without_a_guess_lists_all() -> None:
    with pytest.raises(UnknownNameError, match="Known: cora, citeseer") as caught:
        load_dataset("zebra")
    assert "Did you mean" not in str(caught.value)


def test_cache_has_a_default(monkeypatch) -> None:
    monkeypatch.delenv("GELATO_CACHE")
    assert cache_folder() == Path(pooch.os_cache("gelato"))


# ------------------------------------------------------------------ the real graphs
def test_embedded_graph_is_citeseer() -> None:
    graph = load_dataset("citeseer")
    assert dataset_path("citeseer") == PACKAGE_DATA / "citeseer.npz"
    assert (graph.num_nodes, graph.num_edges, graph.num_attributes) == (
        *(3327, 4552, 3703),
    )
    assert np.count_nonzero(np.diff(graph.attributes.indptr) == 0) == 15
    assert (PACKAGE_DATA / "citeseer.npz").stat().st_size < 210_000


@pytest.mark.skipif(not SCRIPT.exists(), reason="scripts are not installed")
def test_embedded_file_is_written_the_same_each_time(tmp_path) -> None:
    small_npz = runpy.run_path(str(SCRIPT))["small_npz"]
    graph = load_dataset("citeseer")
    assert small_npz(graph) == small_npz(graph)
    (tmp_path / "again.npz").write_bytes(small_npz(graph))
    check_same_arrays(PACKAGE_DATA / "citeseer.npz", tmp_path / "again.npz")


def check_same_arrays(ours: Path, theirs: Path) -> None:
    with np.load(ours) as first, np.load(theirs) as second:
        assert set(first.files) == set(second.files)
        for key in first.files:
            assert first[key].dtype == second[key].dtype, key
            np.testing.assert_array_equal(first[key], second[key], err_msg=key)


@needs_shared
def test_embedded_graph_equals_the_benchmark_s_array_for_array() -> None:
    check_same_arrays(PACKAGE_DATA / "citeseer.npz", Path(SHARED) / "citeseer.npz")


@needs_shared
@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed", "photo", "computers"])
def test_benchmark_graphs_are_the_published_ones(name, monkeypatch) -> None:
    monkeypatch.setenv("GELATO_DATA", SHARED)
    graph = load_dataset(name)
    assert content_digest(graph) == catalog()[name].content
    assert content_digest(read_npz(Path(SHARED) / f"{name}.npz")) == find(name).content
