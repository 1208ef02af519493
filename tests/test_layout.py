"""Tests lie where their source lies: kernels/test_deal.py for kernels/deal.py."""

from __future__ import annotations

from pathlib import Path

import gelato
from support import TESTS

SOURCE = Path(gelato.__file__).parent
# Not of one module: recorded bits, folders of older versions, files of strangers.
FREE = {"golden", "old_folders", "strangers"}
FILES = [
    file.relative_to(TESTS)
    for file in sorted(TESTS.rglob("*.py"))
    if file.relative_to(TESTS).parts[0] not in FREE
]


def is_in_place(file):
    """An aspect may follow the name: test_read_fuzz.py for read.py."""
    room = SOURCE / file.parent
    modules = {path.stem for path in room.iterdir()} if room.is_dir() else set()
    stem = file.stem.removeprefix("test_")
    return any(stem == name or stem.startswith(f"{name}_") for name in modules)


def test_a_file_of_tests_is_named_after_its_module():
    tests = {file for file in FILES if file.match("*/test_*.py")}
    lost = {file.as_posix() for file in tests if not is_in_place(file)}
    assert lost == {"models/test_contract.py"}  # of all models


def test_what_tests_share_is_in_support():
    kinds = ("test_*.py", "conftest.py", "support/*.py")
    assert not [file for file in FILES if not any(map(file.match, kinds))]
