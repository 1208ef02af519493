"""Real processes: what is imported, exit codes, pipes, signals, terminals."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time

import pytest

HEAVY = {"torch", "numba", "sklearn", "polars", "matplotlib", "pandas", "pooch"}


def python(*arguments, **options):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--help"], set()),
        (["version"], set()),
        (["evaluate", "--help"], set()),
        # pooch knows where the cache folder is.
        (["list"], {"pooch"}),
    ],
)
def test_light_commands_import_nothing_heavy(arguments, allowed):
    code = (
        "import sys\n"
        "from gelato.cli.app import run\n"
        f"code = run({arguments!r})\n"
        f"found = set(sys.modules) & {HEAVY!r}\n"
        f"sys.exit(code or sorted(found - {allowed!r}) or 0)\n"
    )
    result = python("-c", code)
    assert result.returncode == 0, result.stderr
    assert result.stdout


def test_heuristics_and_checks_need_no_library_that_trains_or_draws(small):
    edges = str(small.edges)
    commands = [
        ["check", "--edges", edges],
        ["predict", "--edges", edges],
        ["predict", "--edges", edges, "-m", "aa"],
        ["evaluate", "--edges", edges, "-m", "ac"],
        ["compare", "--edges", edges, "-m", "cn,ra"],
    ]
    code = (
        "import sys\n"
        "from gelato.cli.app import run\n"
        f"for words in {commands!r}:\n"
        "    code = run([*words, '-q'])\n"
        "    found = {'torch', 'matplotlib', 'sklearn', 'jinja2'} & set(sys.modules)\n"
        "    assert not code and not found, (words, code, found)\n"
    )
    result = python("-c", code)
    assert result.returncode == 0, result.stderr


def test_json_alone_is_on_stdout(gelato, small):
    result = gelato("predict", "--edges", small.edges, "--json")
    assert result.code == 0
    assert result.json["links"]
    assert "note: " in result.err


def test_exit_codes(tmp_path):
    assert python("-m", "gelato", "check", "--edges", tmp_path / "no").returncode == 1
    assert python("-m", "gelato", "check", "--colour").returncode == 2


def test_a_reader_that_leaves_is_no_error():
    command = f'"{sys.executable}" -m gelato list --json'
    shell = f"{command} | head -c 10; echo; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(
        ["bash", "-c", shell], capture_output=True, text=True, timeout=120
    )
    assert "Traceback" not in result.stderr
    assert "BrokenPipe" not in result.stderr
    assert result.stdout.splitlines()[-1] in ("0", "141")


def test_broken_pipe_exit_code(monkeypatch, gelato):
    def leave():
        raise BrokenPipeError

    monkeypatch.setattr("gelato.models.registry.entries", leave)
    monkeypatch.setattr("gelato.cli.app.os.dup2", lambda *_: None)
    monkeypatch.setattr("sys.stdout.fileno", lambda: 1, raising=False)
    assert gelato("list").code == 141


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_interrupt():
    code = (
        "import sys, time\n"
        "from gelato.cli import app\n"
        "from gelato.models import registry\n"
        "def work():\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
        "registry.entries = work\n"
        "sys.exit(app.run(['list']))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert errors == "error: interrupted.\n"


@pytest.mark.parametrize("debug", ["", "1"])
def test_unexpected_exceptions_ask_for_a_report(monkeypatch, capsys, debug):
    from gelato.cli import app

    def fail():
        raise ZeroDivisionError("one\ntwo")

    monkeypatch.setenv("GELATO_DEBUG", debug)
    monkeypatch.setattr("gelato.models.registry.entries", fail)
    assert app.run(["list"]) == 1
    printed = capsys.readouterr().err
    assert "unexpected ZeroDivisionError: one two" in printed
    assert "report" in printed
    assert ("Traceback" in printed) == bool(debug)


def test_ascii_terminals_get_escapes(write, monkeypatch):
    from gelato.cli.app import run

    edges = write("edges.csv", "source,target\nä,b\nb,c\nc,d\nd,e\n".encode())
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="ascii"))
    assert run(["predict", "--edges", str(edges), "--top", "3"]) == 0
    assert rb"\xe4" in printed.getvalue()
