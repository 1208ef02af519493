"""The command line: parse, call the library, print.

Nothing heavy is imported before a verb needs it, so that help is instant. Results go
to stdout, everything else to stderr.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line of this process and leave with its exit code."""
    from gelato.cli.app import run

    sys.exit(run(sys.argv[1:]))
