"""Runs of the program that end in some way, and what they leave: shared by the tests of this folder."""

import json
import os
import subprocess
import tempfile

# Two cases of two formats: rows that are out, rows in hand, rows to come.
CASES = ["--tokens", "64,96", "--kv-format", "bf16,q8_0"]
ASKED = sorted((tokens, name) for tokens in (64, 96) for name in ("bf16", "q8_0"))
SMALL = ["--device", "cpu", "--llc", "32MiB", "--threads", "2", "-m", "2x64/g2x1l", "--samples", "2"]
LIMIT_S = 120


class Ended:
    """A run: code (negative: killed by that signal), out, err, and the rows of the file it saved."""

    def __init__(self, program, words, environment=None, **how):
        how.setdefault("stdout", subprocess.PIPE)
        done = subprocess.run(
            [program, *words], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=LIMIT_S,
            env=dict(os.environ, OMP_WAIT_POLICY="passive", **(environment or {})), check=False,
            **how)
        self.code = done.returncode
        self.out = (done.stdout or b"").decode()
        self.err = done.stderr.decode()

    def __str__(self):
        return f"exit code {self.code}\n{self.err}{self.out[:300]}"


def lines_of(path):
    """The rows of a file, each of which must be whole."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert text == "" or text.endswith("\n"), f"the last line is torn: {text[-60:]!r}"
    return [json.loads(line) for line in text.splitlines()]


def keys(rows, status):
    return sorted((row["tokens"], row["k_format"]) for row in rows if row["status"] == status)


def folder():
    return tempfile.TemporaryDirectory(prefix="kvgauge-endings-")
