"""kvgauge_bench as its users have it: unique keys, the figures of `kvgauge run`, output that every
reader of its format takes, and the exit codes of kvgauge."""

import csv
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

KVGAUGE = os.environ["KVGAUGE"]
BENCH = os.environ["KVGAUGE_BENCH"]
FAULTY = os.environ["KVGAUGE_BENCH_FAULTY"]
SUITES = sorted(pathlib.Path(os.environ["KVGAUGE_SOURCE"], "bench/suites").glob("*.suite"))
# A cache that is known needs no sweep, and one that small leaves rows cold.
QUICK = ["--device", "cpu", "--threads", "1", "--llc", "1kB", "--samples", "2", "--tokens", "100"]
COUNTERS = {
    "formula_bytes",
    "pool_bytes",
    "kv_read_bytes",
    "pool_tokens_per_gb",
    "kv_tokens_per_s",
    "read_gb_per_s",
    "percent_of_ceiling",
    "ceiling_gb_per_s",
    "samples",
    "kernel_error",
    "cold",
}
# With --weights-read, beside those.
WEIGHTS = {
    "step_tokens_per_s",
    "weights_read_bytes",
    "weights_ns",
    "weights_gb_per_s",
    "weights_error",
    "weights_bytes_percent",
    "weights_time_percent",
    "kv_overtakes_weights_tokens",
}
# The same whenever and beside whatever a case is run.
SAME = ("formula_bytes", "pool_bytes", "kv_read_bytes", "pool_tokens_per_gb", "kernel_error")
# In a name where not at its default: a value, and the field it gives.
NAMED = {
    "--index-format": ("mxfp4", "index_format:mxfp4"),
    "--state-format": ("bf16", "state_format:bf16"),
    "--kv-scale": ("amax", "kv_scale:amax"),
    "--lengths": ("mixed", "lengths:mixed"),
    "--share-prefix": ("16", "share_prefix:16"),
    "--window-as": ("full", "window_as:full"),
    "--draft-layers": ("1", "draft_layers:1"),
    "--tp": ("2", "tp:2"),
    "--page-order": ("sequential", "page_order:sequential"),
    "--data": ("outlier", "data:outlier"),
    "--rotate": ("hadamard", "rotate:hadamard"),
    "--seed": ("2", "seed:2"),
    "--weights-read": ("1MiB", "weights_read:1048576"),
    "--weights-format": ("f32 --weights-read 2B", "weights_read:2/weights_format:f32"),
    "--kernel": ("simple", "kernel:simple"),
}
ALWAYS_NAMED = ("--model", "--kv-format", "--tokens", "--seqs", "--page-tokens", "--suite")
# How long, on what, and what kvgauge_bench refuses: no part of what is measured.
UNNAMED = "--samples --max-noise --min-time --max-time --device --threads --llc".split()
UNNAMED += "--budget --weights --label --output --save --resume --list --baseline --help".split()
COMPARE = pathlib.Path("/usr/share/benchmark/compare.py")


PIPES = {"capture_output": True, "text": True, "check": False}


def run(*words, code=0, program=BENCH, skip=None):
    """skip: the exit code that says what is missing here."""
    done = subprocess.run([program, *words], **PIPES)
    if done.returncode == skip:
        raise unittest.SkipTest(done.stderr)
    if done.returncode != code:
        raise AssertionError(f"exit {done.returncode}, not {code}: {words}\n{done.stderr}")
    return done


def refuse_constant(word):
    raise AssertionError(f"{word} is not JSON")


def strict(text):
    return json.loads(text, parse_constant=refuse_constant)


def rows(*words, code=0):
    return strict(run(*words, "--benchmark_format=json", code=code).stdout)["benchmarks"]


def listed(*words):
    return run(*words, "--benchmark_list_tests").stdout.split()


class Names(unittest.TestCase):
    def test_of_every_suite(self):
        self.assertGreater(len(SUITES), 5)
        for suite in SUITES:
            # No such device: nothing is opened for a list.
            names = listed("--suite", suite.stem, "--device", "none")
            self.assertGreater(len(names), 1, suite)
            self.assertEqual(len(names), len(set(names)), suite)
            for name in names:
                # What stands for itself in a regular expression.
                self.assertRegex(name, r"^run/[A-Za-z0-9_.:/-]+/iterations:1/manual_time$")

    def test_are_as_documented(self):
        got = listed(*QUICK, "-m", "latent512+64/g16x1l,2x64/g2x1l", "--kv-format", "q8_0/q4_0")
        tail = "/q8_0-q4_0/tokens:100/seqs:1/page_tokens:16/iterations:1/manual_time"
        self.assertEqual(got, ["run/latent512-64-g16x1l" + tail, "run/2x64-g2x1l" + tail])

    def test_say_what_is_not_the_default(self):
        plain = listed("-m", "2x64", "--kv-format", "bf16")[0]
        for option, (value, field) in NAMED.items():
            name = listed("-m", "2x64", "--kv-format", "bf16", option, *value.split())[0]
            self.assertEqual(name, plain.replace("/iter", f"/{field}/iter"))
        for words in ("--samples 9", "--min-time 9", "--data normal", "--seed 1", "--threads 1"):
            self.assertEqual(listed("-m", "2x64", "--kv-format", "bf16", *words.split()), [plain])

    def test_know_every_option(self):
        """An option that is new changes the work, and then the name, or does not: said here."""
        options = re.findall(r"^  .{4}(--[a-z-]+) ", run("--help").stdout, re.M)
        self.assertGreater(len(options), 20)
        self.assertEqual(set(options), set(NAMED) | set(ALWAYS_NAMED) | set(UNNAMED))

    def test_are_listed_as_the_library_understands_it(self):
        one = [*QUICK, "-m", "2x64", "--kv-format", "bf16"]
        listed_alone = listed(*one)
        for word in ("Off", "NO", "false", "0", "n", "-", "true", "1", "", "fx", "offf", "00"):
            said = run(*one, f"--benchmark_list_tests={word}").stdout.splitlines()
            is_list = word in ("true", "1", "", "fx", "offf", "00")
            self.assertEqual(said == listed_alone, is_list, word)
            beside = {**os.environ, "BENCHMARK_LIST_TESTS": word}
            done = subprocess.run([BENCH, *one], **PIPES, env=beside)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.splitlines() == listed_alone, is_list, word)

    def test_twice_the_same(self):
        first, second = listed("-m", "2x64", "--kv-format", "auto,bf16")
        self.assertIn("/bf16/", first)
        self.assertEqual(second, first.replace("/iterations", "/again:2/iterations"))

    def test_are_filters_of_themselves(self):
        suite = ["--suite", "smoke"]
        for name in listed(*suite)[::7]:
            self.assertEqual(listed(*suite, f"--benchmark_filter=^{name}$"), [name])
        only_k = listed(*suite, "--benchmark_filter=/q8_0/")
        self.assertEqual(len(only_k), 5)


class Figures(unittest.TestCase):
    def test_are_those_of_run(self):
        asked = [*QUICK, "-m", "2x64/g2x2l,latent512+64/g16x1l,gpt-oss-20b", "--seqs", "2"]
        asked += ["--kv-format", "bf16,q8_0,nvfp4"]
        lines = run("run", *asked, "-o", "jsonl", program=KVGAUGE).stdout.splitlines()
        said = [json.loads(line) for line in lines]
        got = rows(*asked)
        self.assertEqual(len(got), len(said))
        key = lambda row: (row["model"], row["k_format"], row["tokens"], row["seqs"])
        by_name = {
            "run/%s/%s/tokens:%d/seqs:%d" % (re.sub("[^a-z0-9.-]", "-", m), k, t, s): row
            for row in said
            for m, k, t, s in [key(row)]
        }
        for bench in got:
            row = by_name[bench["name"].split("/page_tokens")[0]]
            for name in SAME:
                self.assertEqual(bench[name], row[name], bench["name"])
            self.assertEqual(bench["samples"], len(row["samples_ns"]))
            self.assertEqual(bench["cold"], row["cold"])

    def test_of_weights_are_those_of_run(self):
        asked = [*QUICK, "-m", "2x64/g2x2l,gpt-oss-20b", "--kv-format", "bf16,q8_0"]
        asked += ["--seqs", "2", "--weights-read", "20MB", "--samples", "1"]
        done = run("run", *asked, "-o", "jsonl", program=KVGAUGE, skip=3)
        said = [json.loads(line) for line in done.stdout.splitlines()]
        got = rows(*asked)
        self.assertEqual((len(got), len(said)), (4, 4))
        for bench, row in zip(got, said):
            for name in (*SAME, "weights_read_bytes", "weights_error"):
                self.assertEqual(bench[name], row[name], bench["name"])
            self.assertEqual(
                bench["kv_overtakes_weights_tokens"], row["kv_overtakes_weights_tokens"] or 0
            )
            (weights,) = (part for part in row["step_parts"] if part["part"] == "weights")
            self.assertAlmostEqual(bench["weights_bytes_percent"], weights["bytes_percent"], 9)
            # Of one sample each, medians of parts add up to the median of the step.
            step_ns, weights_ns = 1e3 * bench["real_time"], bench["weights_ns"]
            self.close(bench["step_tokens_per_s"], 2e9 / step_ns)
            self.close(bench["kv_tokens_per_s"], 2e9 / (step_ns - weights_ns))
            self.close(bench["weights_gb_per_s"], bench["weights_read_bytes"] / weights_ns)
            self.close(bench["weights_time_percent"], 100 * weights_ns / step_ns)

    def close(self, got, expected):
        self.assertLess(abs(got / expected - 1), 1e-6, f"{got}, not {expected}")

    def test_belong_together(self):
        (row,) = rows(*QUICK, "-m", "2x64", "--seqs", "3", "--kv-format", "q4_0")
        self.assertEqual((row["time_unit"], row["iterations"]), ("us", 1))
        self.assertFalse(WEIGHTS & set(row))
        # One group, and no weights: KV work is the step, and attention less.
        self.assertAlmostEqual(row["kv_tokens_per_s"], 3e6 / row["real_time"], -1)
        self.assertGreater(row["read_gb_per_s"], row["kv_read_bytes"] / (1e3 * row["real_time"]))
        share = 100 * row["read_gb_per_s"] / row["ceiling_gb_per_s"]
        self.assertAlmostEqual(row["percent_of_ceiling"], share, 6)
        (hot,) = rows(*QUICK, "-m", "2x64", "--kv-format", "q4_0", "--llc", "1GB")
        self.assertEqual((hot["cold"], hot["percent_of_ceiling"]), (0, 0))

    def test_context_says_who_measured(self):
        asked = [*QUICK, "-m", "2x64", "--kv-format", "bf16", "--label", "here"]
        out = run(*asked, "--benchmark_context=who=me", "--benchmark_format=json").stdout
        context = strict(out)["context"]
        self.assertEqual(context["kvgauge_backend"], "cpu")
        self.assertEqual(context["kvgauge_threads"], "1")
        self.assertEqual((context["kvgauge_label"], context["who"]), ("here", "me"))
        self.assertTrue(context["kvgauge_device"] and context["kvgauge_version"])


class Output(unittest.TestCase):
    # The first row is refused: 80 values are no multiple of 32.
    refused_first = [*QUICK, "-m", "2x80,2x64", "--kv-format", "q8_0,bf16"]

    def test_json_of_refused_rows(self):
        got = rows(*self.refused_first)
        self.assertEqual([row.get("error_occurred", False) for row in got], [True] + 3 * [False])
        self.assertRegex(got[0]["error_message"], "^refused: .*multiple of 32")
        for row in got[1:]:
            self.assertLessEqual(COUNTERS, set(row))
        (row,) = rows(*QUICK, "-m", "2x64", "--kv-format", "bf16", "--budget", "1kB", code=2)
        self.assertRegex(row["error_message"], "^out_of_memory: .*budget is 1000")

    def test_csv_of_refused_rows(self):
        out = run(*self.refused_first, "--benchmark_format=csv").stdout
        got = list(csv.DictReader(io.StringIO(out)))
        self.assertEqual(got[0]["error_occurred"], "true")
        self.assertEqual(len(got), 4)
        for row, same in zip(got[1:], rows(*self.refused_first)[1:]):
            self.assertEqual(float(row["pool_bytes"]), same["pool_bytes"])
            self.assertLessEqual(COUNTERS, {name for name in row if row[name] != ""})

    def test_csv_of_refused_rows_with_weights(self):
        asked = [*self.refused_first, "--weights-read", "1MiB"]
        done = run(*asked, "--benchmark_format=csv", skip=3)
        got = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual((len(got), got[0]["error_occurred"]), (4, "true"))
        for row in got[1:]:
            self.assertLessEqual(COUNTERS | WEIGHTS, {name for name in row if row[name] != ""})
            self.assertGreater(float(row["weights_ns"]), 0)

    def test_repetitions_of_rows_whose_counters_are_zero(self):
        asked = [*self.refused_first, "--llc", "1GB", "--benchmark_repetitions=2"]
        got = rows(*asked)
        names = [row["name"].partition("/manual_time")[2] for row in got]
        self.assertEqual(names, ["", ""] + 3 * ["", "", "_mean", "_median", "_stddev", "_cv"])
        self.assertEqual(got[-1]["percent_of_ceiling"], 0)
        few = rows(*asked, "--benchmark_report_aggregates_only=true")
        self.assertEqual(len(few), 2 + 3 * 4)

    def test_file_beside_the_console(self):
        with tempfile.TemporaryDirectory() as folder:
            for form, read in (("json", strict), ("csv", lambda text: text.splitlines()[4])):
                path = pathlib.Path(folder, form)
                said = run(
                    *self.refused_first, f"--benchmark_out={path}", f"--benchmark_out_format={form}"
                ).stdout
                self.assertIn("pool_bytes=", said)
                self.assertTrue(read(path.read_text(encoding="utf-8")))

    def test_of_the_librarys_flags(self):
        flags = "filter=q8_0 min_time=0.01s min_warmup_time=0.001 time_unit=ms color=false "
        flags += "counters_tabular=true format=json"
        asked = [*QUICK, "-m", "2x64", "--kv-format", "bf16,q8_0"]
        done = run(*asked, *(f"--benchmark_{flag}" for flag in flags.split()))
        (row,) = strict(done.stdout)["benchmarks"]
        self.assertEqual(row["time_unit"], "ms")
        self.assertNotIn("suffix", done.stderr)  # of 0.01s no version complains

    def test_that_does_not_arrive(self):
        one = [*QUICK, "-m", "2x64", "--kv-format", "bf16"]
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(
                [BENCH, *one, "--benchmark_format=json"],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        self.assertEqual(done.returncode, 2)
        self.assertIn("writing the output failed", done.stderr)
        self.assertIn("writing", run(*one, "--benchmark_out=/dev/full", code=2).stderr)

    def test_for_the_librarys_compare(self):
        if not COMPARE.exists():
            self.skipTest(f"no {COMPARE} (libbenchmark-tools)")
        if subprocess.run(
            [sys.executable, "-c", "import scipy"], capture_output=True, check=False
        ).returncode:
            self.skipTest("compare.py needs python3-scipy")
        with tempfile.TemporaryDirectory() as folder:
            paths = [str(pathlib.Path(folder, name)) for name in ("a.json", "b.json")]
            for path in paths:
                run(*self.refused_first, "--benchmark_repetitions=2", f"--benchmark_out={path}")
            done = subprocess.run(
                [sys.executable, "-B", str(COMPARE), "benchmarks", *paths],
                capture_output=True,
                text=True,
                check=True,
            )
            self.assertIn("run/2x64/bf16/tokens:100", done.stdout)


class Faults(unittest.TestCase):
    """With tests/bench/faulty_runner.c: bf16 is wrong, q4_0 gives no row, others no numbers."""

    def rows(self, formats, code):
        words = [*QUICK, "-m", "2x64", "--kv-format", formats, "--benchmark_format=json"]
        done = run(*words, code=code, program=FAULTY)
        return strict(done.stdout)["benchmarks"], done.stderr

    def test_wrong_row(self):
        got, said = self.rows("bf16,q8_0", 1)
        self.assertEqual(got[0]["error_message"], 'wrong: kernel error "1" ??')
        self.assertIn("1 rows are wrong", said)

    def test_no_row(self):
        got, said = self.rows("q4_0", 2)
        self.assertEqual(got[0]["error_message"], "out_of_memory: no host memory for formats")
        self.assertIn("no row could run", said)
        self.assertEqual(len(self.rows("q4_0,q8_0", 0)[0]), 2)

    def test_numbers_that_are_none(self):
        (row,) = self.rows("q8_0", 0)[0]
        self.assertEqual((row["real_time"], row["kernel_error"]), (0, 0))
        self.assertLessEqual(COUNTERS, set(row))


class ExitCodes(unittest.TestCase):
    def test_of_bad_usage(self):
        cases = {
            "--bogus": "--bogus: unknown option",
            "--benchmark_bogus=1": "--benchmark_bogus=1: unknown option",
            "--benchmark_format=xml": "allowed are console, json, csv",
            "--benchmark_out_format=xml": "allowed are console, json, csv",
            "--benchmark_out=/none/x": "/none/x: cannot be written",
            "--benchmark_filter=none": "no benchmark of that name",
            "--suite none": "no such suite",
            "--device none": "--device none: unknown",
            "--samples 0": "--samples 0: a whole number",
            "--output json": "--benchmark_format",
            "--save x": "--benchmark_out",
            "--list": "--benchmark_list_tests",
            "--resume x": "kvgauge run",
            "--baseline bf16": "compared with nothing",
        }
        for words, said in cases.items():
            done = run("--llc", "1kB", *words.split(), code=2)
            self.assertRegex(done.stderr, f"kvgauge_bench: .*{said}")
            self.assertEqual(done.stdout, "")

    def test_of_a_launcher(self):
        words = [BENCH, *QUICK, "-m", "2x64", "--kv-format", "bf16"]
        for count, code in (("2", 2), ("1", 0)):
            beside = {**os.environ, "OMPI_COMM_WORLD_SIZE": count}
            done = subprocess.run(words, capture_output=True, text=True, check=False, env=beside)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual("2 processes were started together" in done.stderr, code == 2)

    def test_of_help(self):
        for word in ("--help", "-h"):
            self.assertRegex(run(word).stdout, "(?s)--kv-format LIST.*--benchmark_filter=")

    def test_of_an_interrupt(self):
        words = [BENCH, *QUICK, "-m", "2x64", "--kv-format", "bf16,q8_0,q4_0"]
        words += ["--samples", "1000000", "--benchmark_format=json"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            seen = b""
            while b'"benchmarks": [' not in seen:
                seen += os.read(process.stdout.fileno(), 65536)
            process.send_signal(signal.SIGINT)
            seen += process.stdout.read()
        self.assertEqual(process.returncode, 130)
        got = strict(seen)["benchmarks"]
        self.assertEqual(len(got), 3)
        # The last was not even begun.
        self.assertEqual(got[2]["error_message"], "interrupted")


if __name__ == "__main__":
    unittest.main()
