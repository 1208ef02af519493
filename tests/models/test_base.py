"""What models share: graphs that come later, engines, what is imported."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

import gelato
from gelato.engines import ThreadEngine
from gelato.errors import InputError, UsageError
from gelato.graph import Graph
from gelato.models.base import align_attributes, carry_split
from gelato.splits import split_edges
from support.small_graphs import community_graph

NAMES = ("a", "city=Lyon", "city=Rome", "bio:cat")


def named(names, values, edges=((0, 1), (1, 2))):
    return Graph.from_indices(
        3, edges, attributes=np.array(values, np.float32), attribute_names=names
    )


KNOWN = named(NAMES, [[1, 1, 0, 1], [2, 0, 1, 0], [3, 0, 0, 0]])


@pytest.mark.parametrize("sparse", [False, True])
class TestAttributes:
    def test_order_new_columns_and_lost_values(self, sparse):
        names = ("new", "city=Oslo", "bio:cat", "a", "city=Rome")
        newer = named(names, [[9, 0, 1, 1, 0], [9, 1, 0, 2, 1], [9, 0, 0, 3, 0]])
        if sparse:
            newer = replace(newer, attributes=sp.csr_array(newer.attributes))
        aligned = align_attributes(KNOWN, newer)
        assert aligned.attribute_names == NAMES
        values = aligned.attributes.toarray() if sparse else aligned.attributes
        assert values.tolist() == [[1, 0, 0, 1], [2, 0, 1, 0], [3, 0, 0, 0]]
        assert values.dtype == np.float32
        assert [note.split(":")[0] for note in aligned.notes[-2:]] == [
            "attributes that the model does not know, left out",
            "attributes that no node has any more, taken as 0",
        ]
        assert "'city=Oslo', 'new'" in aligned.notes[-2]
        assert "'city=Lyon'" in aligned.notes[-1]

    def test_a_lost_column_is_no_lost_value(self, sparse):
        newer = named(("city=Lyon", "city=Rome", "bio:cat"), np.ones((3, 3)))
        if sparse:
            newer = replace(newer, attributes=sp.csr_array(newer.attributes))
        assert align_attributes(KNOWN, newer) is newer
        model = gelato.make("cos+ac", eta=0.5).fit(KNOWN)
        with pytest.raises(InputError, match="lacks: 'a'"):
            model.with_graph(newer)

    def test_the_same_scores_whatever_the_order(self, sparse):
        graph = community_graph()
        width = graph.num_attributes
        names = tuple(f"x{i}" for i in range(width))
        dense = graph.attributes.toarray()
        before = replace(graph, attributes=dense, attribute_names=names)
        model = gelato.make("cos+ac", eta=0.5).fit(split_edges(before))
        turned = np.column_stack([dense[:, ::-1], np.ones(len(dense))])
        newer = replace(
            graph,
            attributes=sp.csr_array(turned) if sparse else turned,
            attribute_names=(*names[::-1], "more"),
        )
        rows = np.arange(graph.num_nodes)
        known = model.score_rows(rows, edges="all")
        found = model.with_graph(newer).score_rows(rows)
        np.testing.assert_allclose(found, known, rtol=1e-6)


class TestHeldOutEdges:
    def test_edges_are_known_unless_they_were_held_out(self):
        graph = community_graph(ids=[f"n{i}" for i in range(40)])
        split = split_edges(graph, valid=0.2, test=0.2)
        order = np.random.default_rng(0).permutation(40)
        place = np.argsort(order)
        more = [(a, b) for a, b in ((0, 39), (1, 38)) if graph.adjacency[a, b] == 0]
        newer = Graph.from_indices(
            40,
            place[np.concatenate([graph.edges[1:], more])],
            ids=[f"n{i}" for i in order],
        )
        carried = carry_split(split, newer)
        gone = {frozenset(map(int, graph.edges[0]))}

        def named_pairs(of, pairs):
            return {frozenset(int(x[1:]) for x in of.node_ids[p]) for p in pairs}

        for part in ("valid", "test"):
            expected = named_pairs(graph, split.positives(part)) - gone
            assert named_pairs(newer, carried.positives(part)) == expected
        assert len(carried.train) + len(carried.valid) + len(carried.test) == (
            newer.num_edges
        )
        assert carried.kind == "random"

    def test_nothing_held_out_nothing_carried(self):
        graph = community_graph()
        assert carry_split(None, graph) is None
        split = split_edges(graph, valid=0.2, test=0.0)
        assert carry_split(split, graph.with_edges(split.train)) is None
        assert carry_split(split, graph.with_edges(split.valid)) is None

    def test_expected_precision_of_a_newer_graph_is_counted_anew(self):
        graph = community_graph()
        split = split_edges(graph, valid=0.2, test=0.2)
        model = gelato.make("ac").fit(split)
        old = model.predict(top=5)
        added = [tuple(row) for row in old.select("source", "target").iter_rows()]
        edges = np.concatenate([graph.edges, np.array(added)])
        newer = model.with_graph(replace(graph, edges=np.unique(edges, axis=0)))
        assert newer.validation_counts_ is None
        table = newer.predict(top=5)
        assert table["expected_precision"].null_count() == 0
        known = len(newer.split_.train)
        counts = newer.validation_counts_
        assert counts.num_positives == len(split.valid)
        assert counts.num_negatives == graph.num_pairs - known - len(split.valid)


class TestKeptCounts:
    @pytest.fixture
    def saved(self, tmp_path):
        split = split_edges(community_graph(), valid=0.2, test=0.2)
        model = gelato.make("ac").fit(split)
        table = model.predict(top=7)
        model.save(tmp_path / "run")
        return split, table, tmp_path / "run"

    def test_a_loaded_model_does_not_count_again(self, saved, monkeypatch):
        split, table, folder = saved
        model = gelato.load(folder)
        ranked = []
        whole = "gelato.predict.precision.rank_counts"
        import gelato.predict.precision as scope

        count = scope.rank_counts
        monkeypatch.setattr(
            whole, lambda *a, **k: ranked.append(len(a[1])) or count(*a, **k)
        )
        assert model.predict(top=7).equals(table)
        # Edges held out in other turns and the links, not the validation edges.
        others = [len(split.valid)] * (scope.Validation(model, split).turns - 1)
        assert ranked == [*others, 7]
        del ranked[:]
        model.predict(top=7, exclude=[(0, 39)])  # other candidates, other counts
        assert ranked == [len(split.valid), *others, 7]

    def test_fitting_again_forgets(self, saved):
        split, _, folder = saved
        model = gelato.load(folder)
        assert model.validation_counts_ is not None
        assert model.fit(split).validation_counts_ is None

    @pytest.mark.parametrize("field", ["version", "split", "format", "num_negatives"])
    def test_counts_of_another_version_or_split_are_left_aside(
        self, saved, field, tmp_path
    ):
        from gelato.ranking.counts import read_counts

        split, _, folder = saved
        path = folder / "validation.parquet"
        found = read_counts(path, split.fingerprint)
        assert found.num_positives == len(split.valid)
        header = pl.read_parquet_metadata(path) | {field: "other"}
        kept = {k: v for k, v in header.items() if not k.startswith("ARROW")}
        other = tmp_path / "other.parquet"
        pl.read_parquet(path).write_parquet(other, metadata=kept)
        assert read_counts(other, split.fingerprint) is None
        other.write_bytes(b"no Parquet")
        assert read_counts(other, split.fingerprint) is None


class Spy(ThreadEngine):
    """Threads, and a count of what they were asked."""

    asked = 0

    def map(self, *given):
        self.asked += 1
        return super().map(*given)


@pytest.mark.parametrize("held_out", [False, True])
def test_predictions_run_on_the_engine_that_is_asked_for(held_out):
    graph = community_graph()
    data = split_edges(graph, valid=0.2) if held_out else graph
    model = gelato.make("cn").fit(data)
    engine = Spy()
    found = model.prediction(top=5, engine=engine).table
    assert engine.asked
    assert found.equals(model.predict(top=5))


def test_a_heuristic_needs_no_torch():
    code = (
        "import sys, gelato\n"
        "graph = gelato.Graph.from_indices(4, [(0, 1), (1, 2), (2, 3)])\n"
        "model = gelato.make('ac').fit(graph)\n"
        "model.predict(top=1), model.explain(0, 2)\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_threads_are_no_parameter_and_old_folders_still_load(tmp_path):
    with pytest.raises(UsageError, match=r"no parameter 'threads'.*gelato.use_threads"):
        gelato.make("gelato", threads=2)
    model = gelato.make("mlp", epochs=1, batches=2, hidden=4)
    model.fit(split_edges(community_graph(), valid=0.2))
    model.save(tmp_path)
    config = tmp_path / "config.toml"
    text = config.read_text()
    assert "threads" not in text
    config.write_text(text.replace("hidden = 4", "hidden = 4\nthreads = 2"))
    again = gelato.load(tmp_path)
    np.testing.assert_array_equal(
        again.score_rows(np.arange(3)), model.score_rows(np.arange(3))
    )
