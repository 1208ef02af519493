"""Build the wheel, install it beside what it requires, and run the demo there.

The libraries are those of ``.venv``, which are not installed a second time. Only what
the wheel requires, directly or by way of others, is linked into the environment: what
works here works where nothing else is installed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILDER = ROOT / ".venv" / "bin" / "python"

# Run by the builder: prints its folder of libraries, and what in it a wheel requires.
REQUIRED = """
import sys, sysconfig, zipfile
from email import message_from_bytes
from importlib.metadata import PackageNotFoundError, distribution
from packaging.requirements import Requirement

def needed(lines, extras):
    for line in lines or ():
        one = Requirement(line)
        asked = [{"extra": extra} for extra in extras or [""]]
        if one.marker is None or any(map(one.marker.evaluate, asked)):
            yield one.name, tuple(sorted(one.extras))

with zipfile.ZipFile(sys.argv[1]) as wheel:
    (name,) = [n for n in wheel.namelist() if n.endswith(".dist-info/METADATA")]
    lines = message_from_bytes(wheel.read(name)).get_all("Requires-Dist")
seen, found, todo = set(), set(), list(needed(lines, ()))
while todo:
    one = todo.pop()
    if one not in seen:
        seen.add(one)
        try:
            library = distribution(one[0])
        except PackageNotFoundError:
            continue  # of another system
        todo += needed(library.requires, one[1])
        found |= {file.parts[0] for file in library.files}
print(sysconfig.get_path("purelib"), *sorted(found - {".."}), sep="\\n")
"""


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
        run(BUILDER, "-m", "build", "--wheel", "--no-isolation", "--outdir", work)
        (wheel,) = work.glob("*.whl")
        asked = [BUILDER, "-c", REQUIRED, wheel]
        told = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
        libraries, *required = told.splitlines()
        venv.create(work / "env", with_pip=True)
        (own,) = (work / "env").glob("lib/*/site-packages")
        run(work / "env/bin/pip", "install", "--quiet", "--no-deps", wheel)
        for name in required:
            if not (own / name).exists():
                (own / name).symlink_to(Path(libraries) / name)
        run(work / "env" / "bin" / "gelato", "version", cwd=work)
        # A few epochs show that everything is in the wheel.
        demo = ("demo", "--epochs", "10", "--output", "demo")
        run(work / "env" / "bin" / "gelato", *demo, cwd=work)
        if not list((work / "demo").iterdir()):
            sys.exit("gelato demo wrote nothing")
    print("the wheel installs and runs on its own")


if __name__ == "__main__":
    main()
