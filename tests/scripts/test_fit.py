"""The fits of report.py against made-up rows whose fixed part and slope are known, and against what
host/fit.c says of the same rows: the same sentences. FIT_WORDS names the program fit_words."""

import os
import random
import subprocess
import unittest

import speed_ratio
import fit_lines
from report_rows import sections_of
from sample_rows import ScriptTest, make_row

PROGRAM = os.environ["FIT_WORDS"]
LENGTHS = [4096 << i for i in range(7)]


def rows_of(fmt, fixed_ns, slope_ns, noise=0.0, lengths=LENGTHS, spread=None):
    """Rows whose medians lie on a line, or off it by up to `spread`."""
    rows = []
    for tokens in lengths:
        ns = fixed_ns + slope_ns * tokens
        ns *= 1 + (spread.uniform(-0.05, 0.05) if spread else 0)
        row = make_row(fmt, tokens, ns)
        row["step_ns"]["median"] = ns
        row["step_interval_ns"] = [int(ns * (1 - noise)), int(ns * (1 + noise))] if noise else None
        rows.append(row)
    return rows


def words_in_c(rows):
    lines = "".join(
        "\t".join(
            [
                "setting",
                row["k_format"],
                "01"[row["k_format"] == "bf16"],
                repr(float(row["tokens"])),
                repr(float(row["step_ns"]["median"])),
                *(repr(float(end)) for end in row["step_interval_ns"] or (0, 0)),
            ]
        )
        + "\n"
        for row in rows
    )
    done = subprocess.run([PROGRAM], input=lines, capture_output=True, text=True, check=True)
    return [
        line.removeprefix("setting: ").removeprefix("setting ") for line in done.stdout.splitlines()
    ]


def words_in_python(rows):
    rows = [dict(row, step_interval_ns=row["step_interval_ns"] or []) for row in rows]
    (section,) = sections_of([("file", rows)])
    return section.fit_sentences()


class FitTest(ScriptTest):
    script = "report.py"

    def test_known_lines(self):
        rows = rows_of("bf16", 100e3, 20) + rows_of("q8_0", 300e3, 10)
        self.assertEqual(
            words_in_python(rows),
            [
                "bf16: 100.0 us + 20.000 ns per token (7 lengths, 4k to 256k; off by 0.0 % at most)",
                "q8_0: 300.0 us + 10.000 ns per token (7 lengths, 4k to 256k; off by 0.0 % at most)",
                "q8_0 passes bf16 at 19.5k tokens",
            ],
        )

    def test_the_same_sentences_as_the_program(self):
        kinds = set()
        for seed in range(250):
            draw = random.Random(seed)
            lengths = sorted(draw.sample(LENGTHS, draw.randint(2, 7)))
            rows = [] if seed else rows_of("q8_0", 120e3, 15, 0.1) + rows_of("bf16", 100e3, 20, 0.1)
            for fmt in ("bf16", "q8_0", "nvfp4") if seed else ():
                rows += rows_of(
                    fmt,
                    draw.choice((1e4, 1e5, 1e6, 5e6)) * draw.uniform(0.5, 2),
                    draw.uniform(5, 30),
                    draw.choice((0, 0.01, 0.03, 0.1)),
                    sorted(draw.sample(LENGTHS, 5)) if fmt == "nvfp4" else lengths,
                    draw if seed % 2 else None,
                )
            said = words_in_c(rows)
            self.assertEqual(words_in_python(rows), said, seed)
            kinds |= {
                kind
                for kind in (  # each is to be among what was compared
                    "passes",
                    "is faster than bf16 up to",
                    "at every length between",
                    "never passes",
                    "by no more than their noise",
                    "extrapolated: faster from",
                    "extrapolated: faster up to",
                    "at the earliest, or never",
                    "at the latest",
                    "k to ",
                )
                if any(kind in line for line in said)
            }
        self.assertEqual(len(kinds), 10, kinds)

    def test_an_interval_holds_its_crossing(self):
        measured = {
            "bf16": [
                (8192, 15185127, 15044174, 15329757),
                (16384, 31541496, 31262349, 31903847),
                (32768, 76504676, 67780475, 82099527),
                (65536, 149954602, 139104996, 304721845),
            ],
            "q8_0": [
                (8192, 15095560, 14170113, 15480138),
                (16384, 29149456, 26577296, 30593440),
                (32768, 66872752, 64420896, 74566449),
                (65536, 137649334, 131255086, 156541293),
            ],
        }
        rows = []
        for fmt, points in measured.items():
            for tokens, ns, low, high in points:
                rows.append(make_row(fmt, tokens, ns))
                rows[-1]["step_ns"]["median"] = ns
                rows[-1]["step_interval_ns"] = [low, high]
        said = words_in_python(rows)
        self.assertEqual(words_in_c(rows), said)
        self.assertIn("extrapolated: faster from 7.3k tokens (anywhere, by the noise)", said[-1])

    def test_cold_rows_alone(self):
        rows = rows_of("bf16", 100e3, 20)
        for row in rows[:5]:
            row["cold"] = False
        self.assertEqual(words_in_python(rows), [])
        rows = rows_of("bf16", 100e3, 20)
        rows[0].update(status="wrong")
        self.assertIn("(6 lengths, 8k to 256k", words_in_python(rows)[0])

    def test_in_the_report(self):
        rows = rows_of("bf16", 100e3, 20, 0.01) + rows_of("q8_0", 300e3, 10, 0.01)
        rows[3].update(stability="two speeds")
        code, _, err = self.run_script(self.write("rows.jsonl", rows))
        self.assertEqual(code, 0, err)
        for name in ("report.md", "report.html"):
            text = (self.folder / name).read_text("utf-8")
            self.assertIn("q8_0 passes bf16 at 19.5k tokens (18.6k to 20.5k)", text)
            self.assertIn("ok, two speeds", text)
            self.assertIn("the speed of 1 moved while they were measured", text)
        code, _, err = self.run_script(self.write("rows.jsonl", rows[:2]))
        self.assertEqual(code, 0, err)
        self.assertNotIn("by tokens of context", (self.folder / "report.md").read_text("utf-8"))

    def test_texts_of_tokens(self):
        for tokens, text in (
            (1, "1"),
            (1023, "1023"),
            (1024, "1k"),
            (6246, "6.1k"),
            (102400, "100k"),
            (1048576, "1m"),
            (1572864, "1.5m"),
        ):
            self.assertEqual(fit_lines.tokens_text(tokens), text)


class IntervalTest(unittest.TestCase):
    def test_the_same_interval_as_compare(self):
        done = subprocess.run([PROGRAM, "rank", "1200"], capture_output=True, text=True, check=True)
        ranks = [int(line) for line in done.stdout.split()]
        self.assertEqual(ranks[:6], [0] * 6)
        for count in range(6, 1201):
            low, high = speed_ratio.median_interval(range(1, count + 1))
            self.assertEqual((low, high), (ranks[count], count + 1 - ranks[count]), count)


if __name__ == "__main__":
    unittest.main()
