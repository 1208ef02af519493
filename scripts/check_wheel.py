"""Build the wheel, install it into an empty environment and run the demo there."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Run a command and stop with its exit code if it fails."""
    print("+", *command, flush=True)
    finished = subprocess.run([str(part) for part in command], cwd=cwd, check=False)
    if finished.returncode:
        sys.exit(finished.returncode)


def main() -> None:
    """Check that what would be published works on its own."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        builder = ROOT / ".venv" / "bin" / "python"
        run(builder, "-m", "build", "--wheel", "--no-isolation", "--outdir", work)
        (wheel,) = work.glob("*.whl")
        venv.create(work / "env", with_pip=True)
        python = work / "env" / "bin" / "python"
        quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run(python, *quiet, "-c", ROOT / "constraints.txt", "torch")
        run(python, *quiet, "-c", ROOT / "constraints.txt", wheel)
        run(work / "env" / "bin" / "gelato", "version", cwd=work)
        # A few epochs show that everything is in the wheel.
        demo = ("demo", "--epochs", "10", "--output", "demo")
        run(work / "env" / "bin" / "gelato", *demo, cwd=work)
        if not list((work / "demo").iterdir()):
            sys.exit("gelato demo wrote nothing")
    print("the wheel installs and runs on its own")


if __name__ == "__main__":
    main()
