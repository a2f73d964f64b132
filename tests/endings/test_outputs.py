"""Outputs that fail: a disk that is full, a reader that went away, a stream that was closed. What is
written ends with a whole row, the other output has every row that was measured, and stderr names
the one that failed."""

import json
import os
import resource
import sys
import unittest

from endings import ASKED, CASES, SMALL, Ended, folder, keys, lines_of

PROGRAM = sys.argv.pop(1)
RUN = ["run", *SMALL, *CASES, "-o", "jsonl"]


def full_at(size):
    """For subprocess: no file grows past `size` bytes."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


class Outputs(unittest.TestCase):
    def setUp(self):
        self.place = folder()
        self.addCleanup(self.place.cleanup)
        self.file = os.path.join(self.place.name, "rows")

    def test_no_space_for_what_is_saved(self):
        """However far into a row the disk reaches. Rows differ in length from run to run by a few
        digits; what is left out here is no place between two of them."""
        length = len(Ended(PROGRAM, [*RUN, "--save", self.file]).out.splitlines()[0])
        fitted = set()
        for rows in (0, 0.0005, 0.05, 0.5, 0.95, 1.1, 1.9, 2.5, 3.5):
            size = int(rows * length)
            with self.subTest(size=size), folder() as place:
                file = os.path.join(place, "rows")
                ended = Ended(PROGRAM, [*RUN, "--save", file], preexec_fn=full_at(size))
                self.assertEqual(ended.code, 2, ended)
                self.assertIn(f"kvgauge: {file}: writing the results failed: File too large", ended.err)
                saved = lines_of(file)
                shown = [json.loads(line) for line in ended.out.splitlines()]
                self.assertEqual(saved, shown[: len(saved)])
                self.assertLess(len(saved), len(ASKED))
                # the case whose row did not fit is shown whole, and the next is not begun
                self.assertEqual(len(shown), 2 if len(saved) < 2 else 4)
                self.assertEqual(len(keys(shown, "ok")), len(shown))
                fitted.add(len(saved))
                self.goes_on(file)
        self.assertEqual(fitted, {0, 1, 2, 3})

    def goes_on(self, file):
        ended = Ended(PROGRAM, [*RUN, "--resume", file])
        self.assertEqual(ended.code, 0, ended)
        self.assertEqual(keys(lines_of(file), "ok"), ASKED)

    def test_no_space_behind_the_rows_of_another_run(self):
        Ended(PROGRAM, ["run", *SMALL, "--tokens", "64", "--save", self.file])
        with open(self.file, "rb") as file:
            before = file.read()
        for more in (0, 1, 100, 1500):
            ended = Ended(PROGRAM, [*RUN, "--resume", self.file], preexec_fn=full_at(len(before) + more))
            self.assertEqual(ended.code, 2, ended)
            self.assertIn(f"{self.file}: writing the results failed", ended.err)
            with open(self.file, "rb") as file:
                self.assertEqual(file.read(), before)

    def test_no_space_for_what_is_shown(self):
        shown = os.path.join(self.place.name, "shown")
        for size in (0, 1500, 5000):
            with open(shown, "wb") as out:
                ended = Ended(PROGRAM, RUN, stdout=out, preexec_fn=full_at(size))
            self.assertEqual(ended.code, 2, ended)
            self.assertIn("kvgauge: the standard output: writing the results failed", ended.err)
            self.assertLess(len(lines_of(shown)), len(ASKED))

    def test_torn_at_any_place(self):
        """As a kill within a write leaves it."""
        Ended(PROGRAM, [*RUN, "--save", self.file])
        with open(self.file, "rb") as file:
            whole = file.read()
        last = whole.rstrip(b"\n").rfind(b"\n") + 1
        length = len(whole) - last
        for kept in (1, 2, 17, 19, length // 2, length - 2):
            with self.subTest(kept=kept):
                with open(self.file, "wb") as file:
                    file.write(whole[: last + kept])
                ended = Ended(PROGRAM, [*RUN, "--resume", self.file])
                self.assertEqual(ended.code, 0, ended)
                self.assertIn(f"{self.file}, line 4 was cut off after {kept} bytes", ended.err)
                self.assertEqual(keys(lines_of(self.file), "ok"), ASKED)
                self.assertEqual(len(ended.out.splitlines()), 1)

    def test_a_reader_that_goes_away(self):
        for form in ("jsonl", "csv", "json", "table", "md"):
            with self.subTest(form=form), folder() as place:
                file = os.path.join(place, "rows")
                words = [*RUN[:-1], form, "--save", file]
                # gone before the program starts: on a busy machine it might end before this one goes on
                reader, writer = os.pipe()
                os.close(reader)
                ended = Ended(PROGRAM, words, stdout=writer)
                os.close(writer)
                self.assertEqual(ended.code, 2, ended)
                self.assertIn("kvgauge: the standard output: writing the results failed", ended.err)
                # tables are written at the end; otherwise the case in hand is saved whole
                rows = 4 if form in ("table", "md") else 2
                self.assertEqual(len(keys(lines_of(file), "ok")), rows)

    def test_closed_streams(self):
        """A file that is opened does not get the number of a closed stream, and its text."""
        for closed in ((1,), (0, 1), (0, 1, 2)):
            with self.subTest(closed=closed), folder() as place:
                file = os.path.join(place, "rows")
                shell = " ".join(["exec \"$@\"", *(f"{stream}>&-" for stream in closed)])
                ended = Ended("bash", ["-c", shell, "bash", PROGRAM, *RUN[:-1], "table", "--save", file])
                self.assertEqual(ended.code, 2, ended)
                self.assertEqual(keys(lines_of(file), "ok"), ASKED)
        shell = "exec \"$@\" 2>&-"
        ended = Ended("bash", ["-c", shell, "bash", PROGRAM, *RUN, "--save", self.file])
        self.assertEqual(ended.code, 0, ended)
        self.assertEqual(keys(lines_of(self.file), "ok"), ASKED)


if __name__ == "__main__":
    unittest.main()
