"""The tables of scripts/report.py that some rows alone have: whole steps, ranks."""

import unittest

from page_check import PageTest
from sample_rows import lines, make_row, without_speed


def rank(number, kv_ms, **other):
    """One of four ranks, on a part of the cache that its number tells."""
    return {
        "rank": number,
        "device": "Test CPU",
        "threads": 1,
        "formula_bytes": 1000,
        "pool_bytes": 1_000_000 + number,
        "kv_read_bytes": 2_000_000 + number,
        "step_ns": (kv_ms + 0.5) * 1e6,
        "append_ns": 1000,
        "attend_ns": kv_ms * 1e6 - 1000,
        "kv_ns": kv_ms * 1e6,
        "reduce_ns": 0.5e6,
        "ceiling_gb_per_s": 50.0 + number,
        **other,
    }


def ranked(fmt="bf16", tokens=8192, count=4, slowest=2):
    row = make_row(fmt, tokens, ranks=count, slowest_rank=slowest)
    row["per_rank"] = [rank(i, 9.25 + (i == slowest)) for i in range(count)]
    return row


class TablesTest(PageTest):
    def test_whole_steps(self):
        weights = {
            "weights_read_bytes": 512 << 20,
            "weights_format": "f32",
            "step_tokens_per_s": 12.34,
            "step_speed_vs_baseline": 1.07,
            "kv_speed_vs_baseline": 1.69,
            "step_parts": [
                {
                    "part": "weights",
                    "read_bytes": 512 << 20,
                    "bytes_percent": 88.9,
                    "ns": 7,
                    "time_percent": 91.2,
                },
                {
                    "part": "kv",
                    "read_bytes": 64 << 20,
                    "bytes_percent": 11.1,
                    "ns": 1,
                    "time_percent": 8.8,
                },
            ],
            "kv_overtakes_weights_tokens": 30841,
        }
        cells = ["q8_0", "8,192", "12.3", "1.07", "1.69", "89", "91", "30,841 tokens"]
        md, html = self.report(lines([make_row("q8_0", **weights)]))
        self.assertIn(f"| {' | '.join(cells)} |", md)
        self.assertIn("".join(f"<td>{c}</td>" for c in cells[1:]), html)
        for text in (md, html):
            self.assertIn("512 MiB of weights in f32 in a step", text)
            self.assertIn("weights apart from it", text)
            self.assertNotIn("no weights", text)
        weights.update(step_parts=None, kv_overtakes_weights_tokens=None)
        md, _ = self.report(lines([make_row("q8_0", **weights)]))
        self.assertIn("| 1.69 | - | - | - |", md)
        for text in self.report(
            lines([without_speed(make_row("q8_0", **weights), "wrong", "why")])
        ):
            self.assertNotIn("Whole steps", text)
        for text in self.report(lines([make_row()])):
            self.assertNotIn("Whole steps", text)

    def test_ranks(self):
        md, html = self.report([ranked("bf16"), ranked("q8_0", slowest=0), make_row("nvfp4")])
        self.assertIn("| bf16 | 2, slowest | 10.250 | 0.500 | 10.750 | 1,000,002 | 2,000,002 |", md)
        self.assertIn("| bf16 | 0 | 9.250 | 0.500 | 9.750 | 1,000,000 |", md)
        self.assertIn("Rank by rank, 8,192 tokens. Medians; KV is", md)
        self.assertIn("| q8_0 | 0, slowest |", md)
        self.assertIn("<td class=t><b>2, slowest</b></td><td>10.250</td>", html)
        self.assertIn("ranks 4", html)
        for text in (md, html):
            self.assertEqual(text.count(", slowest"), 2)
            self.assertNotIn("Test CPU, 1 thread", text)  # as all of them
        self.assertEqual(html.count("<details open><summary>Rank by rank"), 1)

    def test_ranks_on_several_devices(self):
        row = ranked(count=2)
        row["per_rank"][1].update(device="Test <GPU>|", threads=None)
        md, html = self.report([row])
        self.assertIn("| 0: Test CPU, 1 thread |", md)
        self.assertIn("| 1: Test &lt;GPU&gt;\\| |", md)
        self.assertIn("<td class=t>1: Test &lt;GPU&gt;|</td>", html)

    def test_ranks_that_tell_less(self):
        row = ranked(count=2, slowest=None)
        row["per_rank"][0] = dict.fromkeys(row["per_rank"][0])
        row["per_rank"][1] = {}
        md, html = self.report([row])
        self.assertIn("| bf16 | - | - | - | - | - | - | - |", md)
        self.assertNotIn("slowest<", html)
        wrong = without_speed(ranked("q8_0"), "wrong", "why")
        for text in self.report([make_row(), wrong]) + self.report([make_row()]):
            self.assertNotIn("Rank by rank", text)

    def test_ranks_of_many_rows(self):
        """Those that are drawn: of one length. Many of them are folded."""
        rows = [ranked(fmt, 1024 * i, 64) for fmt in ("bf16", "q8_0") for i in range(1, 51)]
        _, html = self.report(rows)
        self.assertEqual(html.count(", slowest"), 2)
        self.assertEqual(html.count("<details><summary>Rank by rank"), 1)


if __name__ == "__main__":
    unittest.main()
