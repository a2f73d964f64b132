"""scripts/report.py on files written here: the page is well formed, of one piece, safe against what
is in the file, and shows nothing as fine that is not."""

import json
import pathlib
import unittest

import report_svg
import result_rows
from page_check import PageTest
from sample_rows import group, lines, make_row, without_speed

EVIL = "<script>alert(1)</script>\"'&<img src=x onerror=y>\x00\x1b[31m"


class ReportTest(PageTest):
    def test_one_row(self):
        markdown, html = self.report([make_row()])
        head = markdown.splitlines()[:6]
        for line, start in zip(
            head,
            (
                "Device: Test CPU, 2 threads",
                "Read ceiling: 50.0 GB/s",
                "Tokens per GB (",
                "KV speed",
                "How: ",
                "Version: kvgauge 0.1.0 (0123456789ab), 2026-11-30",
            ),
        ):
            self.assertTrue(line.startswith("- " + start), line)
        self.assertEqual(markdown.splitlines()[6], "")
        self.assertIn("8x128/g4x2l", html)
        self.assertEqual(len(self.named(html, "Tokens per GB")), 1)

    def test_every_drawing_is_there(self):
        rows = [
            make_row(fmt, tokens, data=data)
            for data in ("normal", "sink")
            for tokens in (4096, 8192)
            for fmt in ("bf16", "q8_0", "nvfp4")
        ]
        for row in rows:
            row["groups"] = [
                group("full", "2 full 8x128", 10, 20, 30),
                group("state", "3 state", 5, 5, 5),
            ]
            row["padding_bytes"] = 1000
        _, html = self.report(rows)
        for name in (
            "Tokens per GB",
            "KV read rate by context",
            "Percent of the read ceiling",
            "Speed-up against bytes saved",
            "Bytes beyond the formula",
            "Where the bytes are",
            "Where the time goes",
        ):
            self.assertEqual(len(self.named(html, name)), 2, name)
        rate = self.named(html, "KV read rate by context")[0]
        self.assertIn("KV read, GB/s", self.words_of(rate))
        self.assertIn("read ceiling", self.words_of(rate))
        self.assertEqual([w for w in self.words_of(rate) if w in ("4k", "8k")], ["4k", "8k"])
        error = self.named(html, "Format error, 8x128/g4x2l")[0]
        self.assertIn("sink data", self.words_of(error))
        self.assertEqual(len([p for p in error.iter("path") if p.find("title") is not None]), 6)

    def test_what_is_not_fine_is_not_drawn_as_fine(self):
        # Figures that such rows cannot have: a page that believed them would show them.
        wrong = without_speed(make_row("q8_0"), "wrong", "kernel error 0.5 above 0.001")
        wrong.update(
            percent_of_ceiling=77.0,
            kv_speed_vs_baseline=9.0,
            read_gb_per_s=7777.0,
            kv_tokens_per_s=1,
        )
        hot = make_row("nvfp4", cold=False, percent_of_ceiling=88.0)
        refused = {
            k: None if k.endswith(("bytes", "gb", "token")) else v
            for k, v in without_speed(make_row("fp8_e4m3"), "refused", "no such pair").items()
        }
        unknown = make_row("bf16", tokens=16384, cold=None, percent_of_ceiling=99.0)
        markdown, html = self.report([make_row("bf16"), wrong, hot, refused, unknown])
        share = self.words_of(self.named(html, "Percent of the read ceiling")[0])
        for state in ("wrong", "hot", "refused"):
            self.assertIn(state, share)
        for name in ("77 %", "88 %", "99 %"):
            self.assertNotIn(name, html)
        for name in ("7777", "7,777", "9.00x", "9.00"):
            self.assertNotIn(name, html)
            self.assertNotIn(name, markdown)
        self.assertIn("Rows that are not fine (2)", html)
        self.assertIn("kernel error 0.5 above 0.001", html)
        self.assertIn("wrong: kernel error 0.5 above 0.001", markdown)
        self.assertIn("3 ok, 1 wrong, 1 refused (1 hot in a cache", markdown)
        rate = self.named(html, "KV read rate by context")[0]
        tips = [p.find("title").text for p in rate.iter("path") if "hollow" in p.get("class")]
        self.assertEqual(len(tips), 2)
        self.assertTrue("nvfp4" in tips[1] and "16,384 tokens" in tips[0], tips)
        gain = self.named(html, "Speed-up against bytes saved")[0]
        hollow = [p for p in gain.iter("path") if "hollow" in p.get("class")]
        self.assertEqual(["nvfp4" in p.find("title").text for p in hollow], [True])

    def test_nothing_fine_at_all(self):
        row = {
            k: None if k.endswith(("bytes", "gb", "token")) else v
            for k, v in without_speed(make_row(), "refused", "not here").items()
        }
        markdown, html = self.report([row])
        self.assertIn("none measured", markdown)
        self.assertIn("1 refused", html)

    def test_older_files_and_nulls(self):
        old = make_row()
        for name in (
            "groups",
            "partial_bytes",
            "spare_bytes",
            "rotate",
            "index_format",
            "shared_bytes",
        ):
            del old[name]
        _, html = self.report([old])
        self.assertNotIn("partial entries", html)
        least = {"schema_version": 1, "model": "m", "k_format": "bf16", "status": "ok"}
        self.report([least])
        for name in make_row():
            if name not in ("schema_version",):
                self.report(
                    [
                        make_row("bf16", 4096),
                        dict(make_row("q8_0"), **{name: None}),
                        dict(make_row("nvfp4"), **{name: None}),
                    ]
                )

    def test_zeros(self):
        for name, value in make_row().items():
            if (
                isinstance(value, (int, float))
                and name != "schema_version"
                and not isinstance(value, bool)
            ):
                self.report([dict(make_row(), **{name: 0}), make_row("q8_0")])

    def test_text_is_text(self):
        row = make_row(
            model=EVIL,
            device=EVIL,
            driver=EVIL,
            reason=EVIL,
            data=EVIL,
            kernel=EVIL,
            git=EVIL,
            argv=["kvgauge", EVIL],
            status="wrong",
        )
        row["k_format"] = row["v_format"] = EVIL
        row["groups"] = [group("full", EVIL, 1, 2, 3), group(EVIL, None, 1, 2, 3)]
        fine = dict(row, status="ok", tokens=4096)
        markdown, html = self.report([row, fine, dict(fine, tokens=2048)])
        self.assertIn("&lt;script&gt;", html)
        for text in (markdown, html):
            self.assertNotIn("<script", text)
            self.assertNotIn("<img", text)
            self.assertNotIn("\x1b", text)
            self.assertNotIn("\x00", text)

    def test_a_thousand_rows(self):
        rows = [
            make_row(fmt, 1024 * i, model=f"model {m}")
            for m in range(50)
            for fmt in ("bf16", "q8_0")
            for i in range(1, 11)
        ]
        markdown, html = self.report(rows)
        self.assertIn("1,000 rows: 1,000 ok", markdown)
        self.assertIn("the first 24 of 50", html)
        self.assertIn("All rows (1,000)", html)
        self.assertLess(len(html), 3_000_000)

    def test_many_formats(self):
        rows = [dict(make_row(), k_format=f"format{i}", v_format=f"format{i}") for i in range(30)]
        self.report(rows)

    def test_files_and_devices_stay_apart(self):
        markdown, html = self.report(
            [make_row()], [make_row(device="Test GPU", backend="cuda", driver="575.1", cuda="13.0")]
        )
        self.assertIn("1 more below", markdown)
        self.assertIn("Test GPU, 2 threads, driver 575.1, CUDA 13.0", html)
        self.assertEqual(len(self.named(html, "Tokens per GB")), 2)

    def test_a_row_measured_again(self):
        _, html = self.report([make_row(), make_row(pool_tokens_per_gb=77777.0)])
        self.assertIn("measured again: 1", html)
        self.assertIn("77,777", html)

    def test_broken(self):
        whole = lines([make_row(), make_row("q8_0")])
        for content, words in (
            ("", "no rows"),
            (b"\xff\xfe\x00", "line 1"),
            ("{}\n", "line 1"),
            (lines([make_row(schema_version=9)]), "schema_version 9"),
            (whole[:50] + "\n" + whole, "line 1"),
            (json.dumps([make_row()]), "line 1"),
        ):
            code, out, err = self.run_script(
                self.write("bad.jsonl", content), "--out", str(self.folder / "none")
            )
            self.assertEqual((code, out), (2, ""))
            self.assertIn("bad.jsonl", err)
            self.assertIn(words, err)
            self.assertFalse((self.folder / "none").exists())
        code, _, err = self.run_script(self.write("cut.jsonl", whole[:-9]))
        self.assertEqual(code, 0)
        self.assertIn("line 2: cut off", err)
        self.assertTrue(pathlib.Path(self.folder / "report.md").exists())
        self.assertEqual(
            self.run_script(str(self.folder / "cut.jsonl"), "--out", "/proc/none")[0], 2
        )
        self.assertEqual(self.run_script()[0], 2)


class DrawingTest(unittest.TestCase):
    def test_ticks(self):
        self.assertEqual(report_svg.ticks(10), [0, 2, 4, 6, 8, 10])
        for top in (0.003, 1, 99, 101, 1e9):
            marks = report_svg.ticks(top)
            self.assertGreaterEqual(marks[-1], top * 0.999)
            self.assertLess(len(marks), 8)
        self.assertEqual(report_svg.ticks(0), [0, 1])

    def test_no_two_formats_look_the_same(self):
        def look(index):
            drawn = report_svg.marker(index, 0, 0)
            return drawn

        self.assertEqual(len({look(i) for i in range(64)}), 64)

    def test_texts_of_bytes(self):
        for number, text in (
            (512 << 20, "512 MiB"),
            (3 << 29, "1.5 GiB"),
            (10 << 30, "10 GiB"),
            (100 << 10, "100 KiB"),
            ((512 << 20) + 1, "536,870,913 bytes"),
            (7, "7 bytes"),
        ):
            self.assertEqual(result_rows.bytes_words(number), text)

    def test_texts(self):
        self.assertEqual(report_svg.tokens(8192), "8k")
        self.assertEqual(report_svg.number(1_200_000), "1.2M")
        self.assertEqual(report_svg.escape("<a&\x00\n"), "&lt;a&amp;??")


if __name__ == "__main__":
    unittest.main()
