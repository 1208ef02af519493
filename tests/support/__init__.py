"""What several test files share; tests write ``from support.oracles import ...``.

Pytest puts the folder ``tests`` on the path (``pythonpath`` in ``pyproject.toml``);
processes that a test starts are given it as :data:`TESTS`. Nothing here is a test.

Slow and obvious twins
    ``oracles`` (heuristics, rankings), ``dense_networks``, ``plain_paths`` (NBFNet),
    ``plain_images`` (TLC-GNN's persistence images), ``paper_rows`` (printed numbers).
Graphs
    ``small_graphs`` (communities, for training), ``walk_graphs``,
    ``attributed_graphs`` (drawn by seed, of every kind), ``strategies`` (hypothesis),
    ``raw_files`` (benchmark graphs as their authors publish them).
Things to run
    ``slow_model``, ``slow_scorers`` (count what they are asked), ``engine_tasks``
    (imported by workers), ``tiny_runs`` (the paper's experiments on a tiny graph),
    ``small_network`` (machines made of namespaces), ``ray_machines`` (Ray on them) and
    ``cluster_driver`` (what runs on the driver's).
Checks
    ``refusals`` (a command that failed as it should), ``exact_bits`` (digests of scores
    and weights, and the machine that they hold for).
"""

from pathlib import Path

TESTS = Path(__file__).parents[1]
