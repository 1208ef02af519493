"""Start-up against its libraries, in the same run: CPU seconds, memory, modules.

Every command works on a graph of eighteen edges, so that what it takes is what
starting takes: next to it, in turns, ``import numpy, scipy.sparse, numba, polars``.
Commands with a heuristic named, and ``check``, should take at most 1.6 times as long
and 200 MB.

    python benchmarks/startup.py [TIMES]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

LIBRARIES = "import numpy, scipy.sparse, numba, polars"
RUN = "from gelato.cli.app import run; assert run({words!r}) == 0"
MEASURED = """
import contextlib, io, json, resource, sys
with contextlib.redirect_stdout(io.StringIO()):
    {code}
used = resource.getrusage(resource.RUSAGE_SELF)
heavy = [name for name in ("torch", "matplotlib", "sklearn") if name in sys.modules]
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, heavy]))
"""
COMMANDS = {
    "check": "check",
    "predict": "predict -m aa",
    "evaluate": "evaluate -m aa --test 0.3",
    "compare": "compare -m cn,aa --test 0.3",
    "predict, model chosen": "predict",
}
GOAL, MEMORY = 1.6, 200


def measured(code: str) -> tuple[float, float, list[str]]:
    """Return CPU seconds, megabytes and heavy modules of a fresh process."""
    made = MEASURED.format(code=code)
    done = subprocess.run(
        [sys.executable, "-c", made], capture_output=True, text=True, check=True
    )
    seconds, size, heavy = json.loads(done.stdout.splitlines()[-1])
    return seconds, size, heavy


def main(times: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        edges = Path(folder) / "edges.csv"
        rows = (f"n{i},n{(i + k) % 9}\n" for i in range(9) for k in (1, 2))
        edges.write_text("one,two\n" + "".join(rows))
        for title, command in COMMANDS.items():
            verb, *rest = command.split()
            code = RUN.format(words=[verb, "--edges", str(edges), "-q", *rest])
            measured(code)  # kernels are compiled once per installation
            pairs = [(measured(LIBRARIES), measured(code)) for _ in range(times)]
            base = statistics.median(one[0] for one, _ in pairs)
            own = statistics.median(other[0] for _, other in pairs)
            size, heavy = pairs[-1][1][1:]
            print(
                f"{title:22} {own:5.2f} s against {base:5.2f} s: {own / base:4.2f} "
                f"times (goal {GOAL}), {size:.0f} MB (goal {MEMORY}), "
                f"heavy modules: {', '.join(heavy) or 'none'}"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
