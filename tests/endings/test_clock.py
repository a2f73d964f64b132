"""Limits are kept by a clock that nobody sets: a wall clock that stands, or that goes back or forward
an hour whenever it is asked, changes the date of a row and nothing else."""

import json
import sys
import unittest

from endings import SMALL, Ended

PROGRAM, CLOCK_JUMP = sys.argv[1:]
del sys.argv[1:]
CLOCKS = ("frozen", "back", "forward")
START_UTC = "2001-09-09T01:46:40Z"
WORDS = ["run", *SMALL[:-2], "--tokens", "16k", "--kv-format", "bf16", "-o", "jsonl"]


class Clock(unittest.TestCase):
    def rows(self, clock, *limits):
        ended = Ended(PROGRAM, [*WORDS, *limits], {"KVGAUGE_CLOCK": clock, "LD_PRELOAD": CLOCK_JUMP})
        self.assertEqual(ended.code, 0, ended)
        row, = map(json.loads, ended.out.splitlines())
        self.assertEqual(row["status"], "ok")
        self.assertEqual(row["time_utc"], START_UTC)  # the clock was asked, and this one answered
        return row

    def test_the_most_time_ends(self):
        """Never narrow enough: by a clock that stands or goes back only the most samples would end it.
        Steps of 8 MiB: so many of them take longer than this."""
        for clock in CLOCKS:
            with self.subTest(clock=clock):
                row = self.rows(clock, "--max-noise", "0.001", "--min-time", "0.3", "--max-time", "0.3")
                self.assertEqual(row["stopped_by"], "max-time")

    def test_the_least_time_is_kept(self):
        """One that goes forward would end it at the least samples. Any interval is narrow enough:
        how long it takes must not hang on how busy the machine is."""
        for clock in CLOCKS:
            with self.subTest(clock=clock):
                row = self.rows(clock, "--max-noise", "100", "--min-time", "1", "--max-time", "1000")
                self.assertGreaterEqual(sum(row["samples_ns"]), 10**9)


if __name__ == "__main__":
    unittest.main()
