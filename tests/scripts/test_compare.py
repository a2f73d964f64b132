"""scripts/compare.py on files written here: what it finds, what not, and what it refuses."""

import copy
import csv
import io
import json
import pathlib
import re
import unittest

import compare
import llama_bench
import result_rows
from sample_rows import ScriptTest, lines, make_row, set_times, without_speed


def slowed(rows, factor):
    rows = copy.deepcopy(rows)
    for row in rows:
        set_times(row, [int(ns * factor) for ns in row["samples_ns"]])
    return rows


ROWS = [make_row("bf16"), make_row("q8_0", step_ns=8e6), make_row("nvfp4", 16384, 9e6)]


class CompareTest(ScriptTest):
    script = "compare.py"

    def compare(self, a, b, *words):
        code, out, err = self.run_script(
            self.write("a.jsonl", a), self.write("b.jsonl", b), "-o", "json", *words
        )
        return code, json.loads(out) if out else [], err

    def verdicts(self, a, b, *words):
        return [row["verdict"] for row in self.compare(a, b, *words)[1]]

    def test_a_copy_is_the_same(self):
        code, found, err = self.compare(ROWS, ROWS, "--max-slowdown", "0")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual([row["verdict"] for row in found], ["same"] * 3)
        for row in found:
            self.assertEqual(row["step_ratio"], 1)
            self.assertEqual((row["formula_difference"], row["pool_difference"]), (0, 0))
            self.assertTrue(row["interval"][0] < 1 < row["interval"][1])

    def test_rows_that_were_interrupted_and_done_again(self):
        cut = [without_speed(copy.deepcopy(row), "interrupted", "interrupted") for row in ROWS]
        self.assertEqual(self.verdicts(cut + ROWS, ROWS), ["same"] * 3)
        self.assertEqual(self.verdicts(ROWS, cut[:1] + ROWS[:1] + cut[1:] + ROWS[1:]), ["same"] * 3)
        self.assertEqual(self.verdicts(cut, ROWS), ["interrupted in A"] * 3)

    def test_ten_percent_are_found(self):
        code, found, _ = self.compare(ROWS, slowed(ROWS, 1.1))
        self.assertEqual(code, 0)
        for row in found:
            self.assertEqual(row["verdict"], "slower")
            self.assertAlmostEqual(row["step_ratio"], 1.1, 3)
            self.assertAlmostEqual(row["attend_ratio"], 1.1, 3)
        self.assertEqual(self.verdicts(slowed(ROWS, 1.1), ROWS), ["faster"] * 3)

    def test_three_percent_are_not_worth_a_word(self):
        self.assertEqual(self.verdicts(ROWS, slowed(ROWS, 1.03)), ["same"] * 3)

    def test_a_machine_slower_as_a_whole_does_not_count(self):
        other = slowed(ROWS, 1.3)
        for row in other:
            row["ceiling_gb_per_s"] /= 1.3
            row["canary_mb_per_s"] = [mb / 1.3 for mb in row["canary_mb_per_s"]]
            row["device"] = "Another CPU"
        code, found, _ = self.compare(ROWS, other, "--max-slowdown", "5")
        self.assertEqual((code, [row["verdict"] for row in found]), (0, ["same"] * 3))
        self.assertEqual({row["device_b"] for row in found}, {"Another CPU"})
        for row in found:
            self.assertAlmostEqual(row["step_ratio"], 1, 3)
            self.assertAlmostEqual(row["attend_ratio"], 1, 3)

    def test_drift_of_the_canary_widens(self):
        """Of rows from before the canary was kept beside each sample."""
        drifting = slowed(ROWS, 1.1)
        for row in drifting:
            row["canary_drift_percent"] = -20.0
            row["pace_mops"] = None
        self.assertEqual(self.verdicts(ROWS, drifting), ["slower"] * 3)
        for row in drifting:
            del row["canary_mb_per_s"]
        self.assertEqual(self.verdicts(ROWS, drifting), ["same"] * 3)

    def test_max_slowdown(self):
        slow = [ROWS[0], *slowed(ROWS[1:2], 1.1), ROWS[2]]
        self.assertEqual(self.compare(ROWS, slow, "--max-slowdown", "20")[0], 0)
        code, _, err = self.compare(ROWS, slow, "--max-slowdown", "5")
        self.assertEqual(code, 1)
        self.assertIn("q8_0, 8,192 tokens x 1: slower 1.100x", err)
        self.assertEqual(self.compare(ROWS, slowed(ROWS, 1.04), "--max-slowdown", "2")[0], 1)
        # 10 % in the median, but not beyond the interval.
        self.assertEqual(self.compare(ROWS, slow, "--max-slowdown", "9.9")[0], 0)
        broken = [ROWS[0], without_speed(make_row("q8_0"), "wrong", "kernel error"), ROWS[2]]
        self.assertEqual(self.compare(ROWS, broken)[0], 0)
        self.assertEqual(self.compare(ROWS, broken, "--max-slowdown", "20")[0], 1)
        for bad in ("-1", "nan", "x"):
            self.assertEqual(self.run_script("a.jsonl", "a.jsonl", "--max-slowdown", bad)[0], 2)

    def test_rows_without_speed_compare_bytes(self):
        hot = make_row("bf16", cold=False, percent_of_ceiling=None)
        wrong = without_speed(make_row("q8_0", pool_bytes=1), "wrong", "kernel error 3 above 1e-3")
        few = make_row("nvfp4", 16384)
        set_times(few, few["samples_ns"][:4])
        _, found, _ = self.compare(ROWS, [hot, wrong, few])
        self.assertEqual(
            [row["verdict"] for row in found],
            ["hot in B: bytes alone", "wrong in B", "4 samples in B: too few"],
        )
        self.assertEqual([row["step_ratio"] for row in found], [None] * 3)
        self.assertEqual(found[1]["pool_difference"], 1 - ROWS[1]["pool_bytes"])

    def test_what_was_asked_is_the_key(self):
        asked = {
            "page_tokens: 16 in": {"page_tokens": 32},
            "data: normal in": {"data": "sink"},
            "kernel: tiled in": {"kernel": "simple"},
            "rotate: none in": {"rotate": "hadamard"},
            "weights_read_bytes: None in": {"weights_read_bytes": 1048576},
            "weights_format: None in": {"weights_format": "bf16"},
            "kv_scale: one in": {"argv": ["kvgauge", "run", "--kv-scale", "amax"]},
            "share_prefix: 0 in": {"argv": ["kvgauge", "run", "--share-prefix=1k"]},
        }
        for difference, columns in asked.items():
            code, _, err = self.compare([make_row()], [make_row(**columns)])
            self.assertEqual(code, 2, difference)
            self.assertIn("no row in common; nearest: 8x128/g4x2l bf16, 8,192 tokens x 1: ", err)
            self.assertIn(difference, err)
            self.assertNotIn(";", err.partition("nearest")[2])
        far = make_row(data="sink", page_tokens=64, rotate="hadamard")
        for a in ([far, make_row()], [make_row(), far]):
            err = self.compare(a, [make_row(page_tokens=32)])[2]
            self.assertIn(" 8,192 tokens x 1: page_tokens: 16 in", err)
        same = make_row(argv=["kvgauge", "run", "--kv-scale", "one", "--share-prefix", "0"])
        self.assertEqual(self.compare([make_row()], [same])[0], 0)

    def test_between_backends_a_default_kernel_is_none(self):
        gpu = make_row(backend="cuda", device="Test GPU", kernel="mma", driver="575.1")
        self.assertEqual(self.verdicts([make_row()], [gpu]), ["same"])
        gpu["argv"] = ["kvgauge", "run", "--kernel", "mma"]
        self.assertEqual(self.compare([make_row()], [gpu])[0], 2)

    def test_rows_of_one_file_are_listed(self):
        code, found, err = self.compare(ROWS[:2], ROWS[1:])
        self.assertEqual((code, len(found)), (0, 1))
        self.assertIn("only in", err)
        self.assertIn("a.jsonl: 8x128/g4x2l bf16, 8,192 tokens x 1", err)
        self.assertIn("b.jsonl: 8x128/g4x2l nvfp4, 16,384 tokens x 1", err)

    def test_repeated_rows_pair_off(self):
        twice = [ROWS[0], *slowed(ROWS[:1], 2)]
        self.assertEqual(self.verdicts(twice, twice), ["same", "same"])

    def test_more_than_two(self):
        paths = [self.write(f"{i}.jsonl", slowed(ROWS, 1 + i / 10)) for i in range(3)]
        _, out, _ = self.run_script(*paths, "-o", "csv")
        found = list(csv.DictReader(io.StringIO(out)))
        self.assertEqual([row["other"] for row in found], ["B"] * 3 + ["C"] * 3)
        self.assertEqual({row["verdict"] for row in found}, {"slower"})
        for row in found:
            self.assertLess(float(row["interval_low"]), float(row["step_ratio"]))
            self.assertGreater(float(row["interval_high"]), float(row["step_ratio"]))

    def test_forms(self):
        paths = [self.write(name, ROWS) for name in ("a.jsonl", "b.jsonl")]
        _, table, _ = self.run_script(*paths)
        self.assertIn("A: ", table)
        self.assertIn("Test CPU, 2 threads; kvgauge 0.1.0 0123456789ab; 3 rows", table)
        self.assertEqual(len(table.splitlines()), 2 + 1 + 3)
        _, markdown, _ = self.run_script(*paths, "-o", "md")
        self.assertEqual(markdown.count("| same |"), 3)
        self.assertIn("order statistics", self.run_script("--help")[1])

    def test_a_thousand_rows(self):
        rows = [make_row(tokens=16 * i) for i in range(1, 1001)]
        self.assertEqual(self.verdicts(rows, rows), ["same"] * 1000)

    def test_older_rows(self):
        old = make_row()
        for name in ("groups", "partial_bytes", "rotate", "canary_drift_percent"):
            del old[name]
        self.assertEqual(self.verdicts([old], [old]), ["same"])


class ColumnsTest(unittest.TestCase):
    def test_every_column_is_known(self):
        fields = pathlib.Path(compare.__file__).parent.parent / "host" / "result_fields.def"
        names = re.findall(r"^RESULT\(\w+, +(\w+),", fields.read_text(), re.M)
        self.assertGreater(len(names), 60)
        self.assertEqual(set(names), set(make_row()))
        checked = [*result_rows.TEXT, *result_rows.NUMBER, *result_rows.SUMMARY]
        by_hand = {"schema_version", "argv", "groups", "step_parts", "per_rank", "cold"}
        by_hand |= {"samples_ns", "step_interval_ns", "canary_mb_per_s", "pace_mops"}
        anything = {"throttle_reasons"}
        self.assertEqual(set(checked) | by_hand | anything, set(names))
        self.assertLessEqual(set(compare.KEYS), set(names))


class BrokenInputTest(ScriptTest):
    script = "compare.py"

    def refuse(self, content, *needles):
        good, bad = self.write("good.jsonl", ROWS), self.write("bad.jsonl", content)
        for paths in ((good, bad), (bad, good)):
            code, out, err = self.run_script(*paths)
            self.assertEqual((code, out), (2, ""))
            self.assertEqual(len(err.splitlines()), 1, err)
            for needle in ("bad.jsonl", *needles):
                self.assertIn(needle, err)

    def test_not_rows(self):
        self.refuse("", "no rows")
        self.refuse("\n\n", "no rows")
        self.refuse(b"\x7fELF\x02\x01\x01\x00\xff\xfe\n\x00\xb5", "line 1", "UTF-8")
        self.refuse("# a table\n", "line 1", "no JSON")
        self.refuse("[1]\n", "line 1", "no row")
        self.refuse('{"model": "x"}\n', "line 1", "no row")
        self.refuse("[" * 100000 + "\n", "line 1", "no JSON")
        self.refuse(lines(ROWS[:1]) + '{"model": \n' + lines(ROWS[1:]), "line 2", "no JSON")
        self.refuse(lines([make_row(), make_row(schema_version=2)]), "line 2", "schema_version 2")
        self.assertEqual(self.run_script("missing.jsonl", "missing.jsonl")[0], 2)
        self.assertEqual(self.run_script()[0], 2)

    def test_values_of_another_kind(self):
        for name, value in (("tokens", "8k"), ("model", 7), ("samples_ns", [1, "x"]), ("samples_ns", [0]),
                            ("step_ns", {"median": None}), ("groups", [3]), ("argv", "kvgauge"), ("cold", 1),
                            ("formula_bytes", True)):  # fmt: skip
            self.refuse(lines([dict(make_row(), **{name: value})]), "line 1", name)
        for number in ("NaN", "Infinity", "1e999", "9" * 5000, "1e300", "-1e31", "1e-300"):
            line = lines([make_row()]).replace('"seed": 1', f'"seed": {number}')
            self.refuse(line, "line 1", "no JSON")

    def test_a_line_that_is_cut_off(self):
        good, whole = self.write("good.jsonl", ROWS), lines(ROWS)
        for cut in (whole[:-200], whole[:-1000], whole.encode()[:-20] + "é".encode()[:1]):
            code, out, err = self.run_script(good, self.write("cut.jsonl", cut))
            self.assertEqual(code, 0)
            self.assertIn("cut.jsonl line 3: cut off", err)
            self.assertEqual(out.count(" same"), 2)
        code, _, err = self.run_script(good, self.write("cut.jsonl", whole[:300]))
        self.assertEqual((code, "cut.jsonl: no rows" in err), (2, True))

    def test_names_do_not_reach_the_terminal(self):
        evil = make_row(model="a\x1b[31m|b\ud800\n")
        path = self.write("evil.jsonl", [evil])
        for form in ("table", "md", "csv", "json"):
            code, out, _ = self.run_script(path, path, "-o", form)
            self.assertEqual(code, 0)
            if form in ("table", "md"):
                self.assertNotIn("\x1b", out)
            out.encode("utf-8")


def llama_entries(tokens_per_s, depths=(1536, 24576, 112640)):
    return [
        {
            "model_type": "Nemotron 3 Nano",
            "type_k": name,
            "type_v": name,
            "n_prompt": 0,
            "n_gen": 128,
            "n_depth": depth,
            "avg_ns": int(128e9 / speed),
        }
        for name, speeds in tokens_per_s.items()
        for depth, speed in zip(depths, speeds)
    ]


class LlamaBenchTest(ScriptTest):
    """Published for Nemotron 3 Nano 30B-A3B on a DGX Spark, tokens per second at 1.5k, 24k and 110k;
    6 layers of attention, 2 KV heads of 128."""

    script = "compare.py"
    figures = {"f16": (45.2, 44.6, 38.0), "q8_0": (45.3, 39.7, 25.0), "q4_0": (45.6, 39.3, 24.0)}
    known = ("--bytes-per-token", "f16=6144,q8_0=3264,q4_0=1728")

    def rates(self, content, *words):
        path = self.write("llama.json", content)
        code, out, err = self.run_script("--llama-bench", path, "-o", "json", *words)
        self.assertEqual(code, 0, err)
        return {row["type_k"]: row for row in json.loads(out)}

    def test_published_figures(self):
        entries = llama_entries(self.figures)
        for content in (json.dumps(entries), lines(entries)):
            found = self.rates(content, *self.known, "--ceiling", "231")
            for name, expected in (("f16", 159), ("q8_0", 20), ("q4_0", 9.5)):
                self.assertAlmostEqual(found[name]["read_gb_per_s"] / expected, 1, delta=0.03)
            self.assertAlmostEqual(found["q8_0"]["percent_of_ceiling"], 8.7, delta=0.2)
            self.assertIsNone(found["q8_0"]["note"])

    def test_an_exact_line_is_found(self):
        # 20 ms and 10 ns a token: 6144 bytes in 10 ns are 614.4 GB/s.
        speeds = [1e9 / (20e6 + 10 * depth) for depth in (0, 1000, 5000)]
        entries = llama_entries({"f16": speeds}, (0, 1000, 5000))
        found = self.rates(json.dumps(entries), *self.known)["f16"]
        self.assertAlmostEqual(found["read_gb_per_s"], 614.4, delta=0.1)
        self.assertAlmostEqual(found["base_ns"], 20e6, delta=10)
        self.assertIsNone(found["percent_of_ceiling"])

    def test_bytes_and_ceiling_of_our_rows(self):
        path = self.write(
            "ours.jsonl", [make_row("bf16"), make_row("bf16", 16384), make_row("q8_0")]
        )
        found = self.rates(json.dumps(llama_entries(self.figures)), path)
        self.assertEqual(found["f16"]["bytes_per_token"], 16384)
        self.assertEqual(found["q8_0"]["bytes_per_token"], 8704)
        self.assertEqual(found["f16"]["ceiling_gb_per_s"], 50)
        self.assertIn("another model", found["f16"]["note"])
        self.assertIn("not known", found["q4_0"]["note"])
        two = self.write("two.jsonl", [make_row(), make_row(model="other")])
        code, _, err = self.run_script("--llama-bench", self.write("l.json", "[]"), two)
        self.assertEqual(code, 2)
        bench = self.write("l.json", json.dumps(llama_entries(self.figures)))
        code, _, err = self.run_script("--llama-bench", bench, two)
        self.assertEqual((code, "--model, one of 8x128/g4x2l, other" in err), (2, True))
        self.assertEqual(self.run_script("--llama-bench", bench, two, "--model", "other")[0], 0)

    def test_names_of_types(self):
        known = {"bf16": 4.0, "q8_0/q4_0": 2.0, "q5_0_ggml": 1.0}
        asked = ("f16", "bf16", "q8_0/q4_0", "q5_0", "q4_1")
        self.assertEqual([llama_bench.bytes_for(name, known) for name in asked], [4, 4, 2, 1, None])
        self.assertEqual(llama_bench.bytes_for("bf16", {"f16": 3.0}), 3)

    def test_nothing_to_fit(self):
        entries = llama_entries({"f16": (40.0,)}) + llama_entries({"q8_0": (20.0, 40.0, 50.0)})
        found = self.rates(json.dumps(entries), *self.known)
        self.assertIn("one depth", found["f16"]["note"])
        self.assertIn("does not grow", found["q8_0"]["note"])

    def test_figures_that_are_none(self):
        path = self.write("l.json", json.dumps(llama_entries(self.figures)))
        for words in ("--bytes-per-token f16=inf", "--bytes-per-token f16=0", "--ceiling nan",
                      "--bytes-per-token f16=nan", "--ceiling 0", "--bytes-per-token f16"):  # fmt: skip
            code, out, err = self.run_script("--llama-bench", path, *words.split())
            self.assertEqual((code, out), (2, ""), words)
            self.assertIn(words.split()[0], err)

    def test_broken(self):
        far = json.dumps([dict(llama_entries(self.figures)[0], n_depth=1e300)])
        for content in ("", "[]", "[1]", "{", '[{"avg_ns": 1}]', '[{"avg_ns": 1', "\x00", far):
            code, out, err = self.run_script("--llama-bench", self.write("l.json", content))
            self.assertEqual((code, out), (2, ""), content)
            self.assertIn("l.json", err)


if __name__ == "__main__":
    unittest.main()
