"""Columns of a real row against each other: what a step's parts, rates and ratios have to add up to.
One sample each, so that medians of sums are sums of medians. No time is compared with a constant."""

import json
import os
import subprocess
import unittest

KVGAUGE = os.environ["KVGAUGE"]
RUN = "run --device cpu --llc 32MiB --tokens 100 --seqs 3 --samples 1 -o jsonl".split()
WEIGHTS = ["--weights-read", "20MB"]


def rows(*words):
    done = subprocess.run([KVGAUGE, *RUN, *words], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        raise unittest.SkipTest(done.stderr)
    if done.returncode != 0:
        raise AssertionError(f"exit {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


class Columns(unittest.TestCase):
    def close(self, got, expected):
        self.assertLess(abs(got - expected), 1e-6 * abs(expected), f"{got}, not {expected}")

    def kv_ns(self, row):
        return row["append_ns"]["median"] + row["attend_ns"]["median"]

    def check_sums(self, row):
        weights_ns = row["weights_ns"]["median"]
        self.assertGreater(weights_ns, 0)
        self.close(row["step_ns"]["median"], self.kv_ns(row) + weights_ns)
        self.close(row["kv_tokens_per_s"], 3e9 / self.kv_ns(row))
        self.close(row["step_tokens_per_s"], 3e9 / row["step_ns"]["median"])
        self.close(row["weights_gb_per_s"], row["weights_read_bytes"] / weights_ns)
        parts = {part["part"]: part for part in row["step_parts"]}
        for column in ("bytes_percent", "time_percent"):
            self.close(sum(part[column] for part in parts.values()), 100)
        self.close(sum(part["ns"] for part in parts.values()), row["step_ns"]["median"])
        self.assertEqual(parts["weights"]["read_bytes"], row["weights_read_bytes"])
        cache_bytes = sum(part["read_bytes"] for part in row["step_parts"][1:])
        self.assertEqual(cache_bytes, sum(group["read_bytes"] for group in row["groups"]))

    def test_of_every_kind(self):
        for model in ("2x64/g4x2l", "qwen3.6-35b-a3b", "deepseek-v4-flash"):
            base, other = rows("-m", model, "--kv-format", "bf16,q8_0", *WEIGHTS)
            for row in (base, other):
                with self.subTest(model=model, k_format=row["k_format"]):
                    self.assertEqual(row["status"], "ok", row["reason"])
                    self.check_sums(row)
            self.close(other["kv_speed_vs_baseline"], self.kv_ns(base) / self.kv_ns(other))
            self.close(
                other["step_speed_vs_baseline"],
                base["step_ns"]["median"] / other["step_ns"]["median"],
            )

    def test_length_at_which_the_cache_is_read_more(self):
        (row,) = rows("-m", "2x64/g4x2l", "--kv-format", "bf16", *WEIGHTS)
        a_token = 3 * row["formula_bytes_per_token"]
        tokens = row["kv_overtakes_weights_tokens"]
        self.assertGreaterEqual(tokens * a_token, row["weights_read_bytes"])
        self.assertLess((tokens - 1) * a_token, row["weights_read_bytes"])

    def test_unknown_is_null(self):
        (row,) = rows("-m", "2x64/g4x2l", "--kv-format", "bf16")
        for name, value in row.items():
            if "weights" in name or name in ("step_tokens_per_s", "step_parts", "reduce_ns"):
                self.assertIsNone(value, name)


if __name__ == "__main__":
    unittest.main()
