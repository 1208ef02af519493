"""The paper's deterministic rows, to the last printed digit."""

from __future__ import annotations

import pytest

import gelato
from support.paper_rows import AP, AUC

SLOW = {"pubmed", "photo", "computers"}
CELLS = [
    pytest.param(
        dataset,
        model,
        marks=[pytest.mark.paper, *([pytest.mark.slow] if dataset in SLOW else [])],
    )
    for dataset in AP
    for model in AP[dataset]
]


@pytest.mark.parametrize(("dataset", "model"), CELLS)
def test_published_ap_and_auc(benchmark, dataset, model):
    split = gelato.split_edges(benchmark(dataset))
    result = gelato.evaluate(gelato.make(model).fit(split), split)
    assert f"{100 * result.ap:.2f}" == f"{AP[dataset][model]:.2f}"
    assert 100 * result.auc == pytest.approx(AUC[dataset][model], abs=0.02)
