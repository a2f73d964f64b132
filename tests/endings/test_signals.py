"""A signal at every call of the backend: what is printed and saved is whole, says what became of each
row in hand, and a run that goes on with the file ends with every row once."""

import json
import os
import signal
import sys
import unittest

from endings import ASKED, CASES, SMALL, Ended, folder, keys, lines_of

PROGRAM = sys.argv.pop(1)
CALLS = ["allocate", "write", "append", "attend", "stream_read", "mark"]


def at(call, number, which):
    return {"KVGAUGE_SIGNAL_AT": f"{call}:{number}:{int(which)}"}


class Signals(unittest.TestCase):
    def sweep(self, which, step, check):
        """`check(ended, file)` after a signal in the 1st, (1 + step)th ... of each kind of call."""
        for call in CALLS:
            number, sent = 1, True
            while sent:
                with folder() as place, self.subTest(signal=which.name, call=call, number=number):
                    file = os.path.join(place, "rows")
                    ended = Ended(PROGRAM, ["run", *SMALL, *CASES, "-o", "json", "--save", file],
                                  at(call, number, which))
                    sent = f"in {call} {number}\n" in ended.err
                    if sent:
                        check(ended, file)
                        self.goes_on(file)
                    else:
                        self.assertEqual(ended.code, 0, ended)
                number += step
            self.assertGreater(number, 1 + step, f"{call} was never called")

    def goes_on(self, file):
        there = keys(lines_of(file), "ok")
        ended = Ended(PROGRAM, ["run", *SMALL, *CASES, "-o", "json", "--resume", file])
        self.assertEqual(ended.code, 0, ended)
        self.assertEqual(keys(lines_of(file), "ok"), ASKED)
        self.assertEqual(len(json.loads(ended.out)), len(ASKED) - len(there))

    def is_interrupted(self, ended, file):
        self.assertEqual(ended.code, 130, ended)
        rows = lines_of(file)
        self.assertEqual(json.loads(ended.out), rows)
        self.assertIn("; interrupted\n", ended.err)
        for row in rows:
            self.assertIn(row["status"], ("ok", "interrupted"))
            if row["status"] == "interrupted":
                self.assertIn("interrupted", row["reason"])
                self.assertIsNone(row["step_ns"])
                self.assertIsNone(row["kv_tokens_per_s"])
            else:
                self.assertGreater(row["step_ns"]["median"], 0)
        # whole cases: the rows in hand are there, those of a case that was not begun are not
        self.assertIn(len(rows), (2, 4))
        self.assertEqual(rows[0]["tokens"], rows[1]["tokens"])
        self.assertEqual({row["status"] for row in rows[:-2]} - {"ok"}, set())

    def is_killed(self, ended, file):
        self.assertEqual(ended.code, -signal.SIGKILL, ended)
        for row in lines_of(file):
            self.assertEqual(row["status"], "ok")

    def test_interrupted_at_every_call(self):
        self.sweep(signal.SIGINT, 2, self.is_interrupted)

    def test_a_long_measurement_ends(self):
        """`Ended` waits only so long."""
        for call in ("mark", "stream_read"):
            words = ["run", *SMALL[:-2], *CASES, "--min-time", "1000", "--max-time", "1000"]
            ended = Ended(PROGRAM, [*words, "-o", "json"], at(call, 40, signal.SIGINT))
            self.assertEqual(ended.code, 130, ended)
            rows = json.loads(ended.out)
            self.assertEqual(keys(rows, "interrupted"), ASKED[:2])
            for row in rows:
                self.assertIn("interrupted while measuring", row["reason"])

    def test_while_weights_are_written(self):
        """The first writes of a run: four of them are weights."""
        for number in (1, 3):
            words = ["run", *SMALL, *CASES, "-o", "json", "--weights-read", "16MB"]
            ended = Ended(PROGRAM, words, at("write", number, signal.SIGINT))
            if ended.code == 3:
                self.skipTest(ended.err)
            self.assertEqual(ended.code, 130, ended)
            rows = json.loads(ended.out)
            self.assertEqual(keys(rows, "interrupted"), ASKED[:2])
            for row in rows:
                self.assertRegex(row["reason"], "^--weights-read [0-9]+: interrupted")

    def test_other_ways_to_ask(self):
        self.sweep(signal.SIGTERM, 7, self.is_interrupted)
        self.sweep(signal.SIGHUP, 7, self.is_interrupted)

    def test_killed(self):
        self.sweep(signal.SIGKILL, 5, self.is_killed)

    def test_a_hangup_that_nobody_minds(self):
        """As nohup starts it."""
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            ended = Ended(PROGRAM, ["run", *SMALL, *CASES, "-o", "json"], at("append", 2, signal.SIGHUP))
        finally:
            signal.signal(signal.SIGHUP, before)
        self.assertEqual(ended.code, 0, ended)
        self.assertEqual(keys(json.loads(ended.out), "ok"), ASKED)

    def test_fill(self):
        for call in ("allocate", "append"):
            for number in (1, 2):
                with folder() as place:
                    file = os.path.join(place, "rows")
                    words = ["fill", "--device", "cpu", "-m", "2x64/g2x1l", *CASES, "--save", file]
                    ended = Ended(PROGRAM, [*words, "-o", "json"], at(call, number, signal.SIGINT))
                    self.assertEqual(ended.code, 130, ended)
                    self.assertEqual(json.loads(ended.out), lines_of(file))
                    self.assertIn("interrupted", ended.err)


if __name__ == "__main__":
    unittest.main()
