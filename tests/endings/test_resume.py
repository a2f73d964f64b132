"""`run --resume`: what the file has is not measured again, and what it does not have is, whatever
makes it another row: a column, or an option that has none."""

import os
import sys
import unittest

from endings import Ended, folder, lines_of
from result_rows import ASKED_BY_OPTION

PROGRAM = sys.argv.pop(1)
RUN = ["run", "--device", "cpu", "--llc", "32MiB", "--samples", "1", "-o", "jsonl"]
CASE = ["--threads", "1", "-m", "2x64/g2x1l", "--tokens", "64", "--kv-format", "q8_0"]
# A value that is not the option's default. LENGTHS is a file.
OTHER = {
    "--kv-scale": "amax",
    "--state-format": "bf16",
    "--lengths": "LENGTHS",
    "--share-prefix": "16",
    "--window-as": "full",
    "--draft-layers": "1",
    "--kernel": "simple",
}
# Columns that are no part of the model or the format.
OTHER_COLUMN = {
    "--threads": "2",
    "--seed": "2",
    "--data": "sink",
    "--page-order": "sequential",
    "--page-tokens": "8",
    "--seqs": "2",
}


class Resume(unittest.TestCase):
    def setUp(self):
        place = folder()
        self.addCleanup(place.cleanup)
        self.file = os.path.join(place.name, "rows")
        self.lengths = os.path.join(place.name, "lengths")
        self.set_lengths("64\n")

    def set_lengths(self, text):
        with open(self.lengths, "w", encoding="utf-8") as file:
            file.write(text)

    def words(self, *more):
        return [*RUN, *CASE, *(word.replace("LENGTHS", self.lengths) for word in more)]

    def measured(self, *more):
        """How many rows a run that goes on with the file adds to it."""
        before = len(lines_of(self.file))
        ended = Ended(PROGRAM, [*self.words(*more), "--resume", self.file])
        self.assertEqual(ended.code, 0, ended)
        added = len(lines_of(self.file)) - before
        self.assertEqual(len(ended.out.splitlines()), added)
        return added

    def test_every_option_without_a_column_is_here(self):
        self.assertEqual(set(OTHER), set(ASKED_BY_OPTION))
        for name, value in OTHER.items():
            self.assertNotEqual(value, ASKED_BY_OPTION[name])

    def test_other_options(self):
        """Each of them after rows of all the others."""
        self.assertEqual(self.measured(), 1)
        for name, value in {**OTHER, **OTHER_COLUMN}.items():
            with self.subTest(option=name):
                self.assertEqual(self.measured(name, value), 1)
                self.assertEqual(self.measured(name + "=" + value), 0)
        self.assertEqual(self.measured(), 0)

    def test_other_words_for_the_same(self):
        self.assertEqual(self.measured("--share-prefix", "16", "--kv-scale", "one"), 1)
        self.assertEqual(self.measured("--share-prefix", "0.015625k"), 0)
        self.assertEqual(self.measured("--share-prefix", "8", "--share-prefix", "16"), 0)

    def test_seeds_that_are_one_double(self):
        for seed in ("9007199254740992", "9007199254740993"):
            self.assertEqual(self.measured("--seed", seed), 1)
            self.assertEqual(self.measured("--seed", seed), 0)

    def test_lengths_that_were_edited(self):
        self.assertEqual(self.measured("--lengths", "LENGTHS"), 1)
        self.set_lengths("65\n")
        self.assertEqual(self.measured("--lengths", "LENGTHS"), 1)

    def test_a_suite(self):
        """Its rows are its own; the command line's options make others of them."""
        smoke = ["--suite", "smoke", "--threads", "1", "--kv-format", "bf16"]
        rows = []
        for more in ([], [], ["--kv-scale", "amax"], ["--kv-scale", "amax"]):
            ended = Ended(PROGRAM, [*RUN, *smoke, *more, "--resume", self.file])
            self.assertEqual(ended.code, 0, ended)
            rows.append(len(lines_of(self.file)))
        self.assertGreater(rows[0], 3)
        self.assertEqual(rows, [rows[0], rows[0], 2 * rows[0], 2 * rows[0]])
        row = lines_of(self.file)[0]
        words = ["--threads", "1", "--kv-format", "bf16", "-m", row["model"]]
        words += ["--tokens", str(row["tokens"]), "--seqs", str(row["seqs"])]
        ended = Ended(PROGRAM, [*RUN, *words, "--resume", self.file])
        self.assertEqual(ended.code, 0, ended)
        self.assertEqual(len(lines_of(self.file)), 2 * rows[0] + 1)

    def test_asked_for_twice(self):
        """A row of the file stands for one row of the run."""
        self.assertEqual(self.measured(), 1)
        self.assertEqual(self.measured("--tokens", "64"), 1)
        self.assertEqual(self.measured("--tokens", "64"), 0)

    def test_an_argv_that_says_nothing(self):
        """Of rows that another version wrote, or somebody by hand."""
        self.assertEqual(self.measured(), 1)
        with open(self.file, encoding="utf-8") as file:
            row = file.read()
        start = row.index('"argv":[') + len('"argv":')
        end = row.index("]", start) + 1
        newer = '["kvgauge","run","--not-yet","1"]'
        for argv in ("null", "[]", "7", '["kvgauge"]', newer, "[null,1]"):
            with self.subTest(argv=argv):
                with open(self.file, "w", encoding="utf-8") as file:
                    file.write(row[:start] + argv + row[end:])
                self.assertEqual(self.measured(), 1)


if __name__ == "__main__":
    unittest.main()
