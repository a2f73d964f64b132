"""Rows as `kvgauge run` writes them, for test_compare.py and test_report.py, and how to run a script
on them. The shape is that of a real run; times are made up, on a device that was not there."""

import contextlib
import io
import json
import os
import pathlib
import runpy
import sys
import tempfile
import unittest

VALUE_BYTES = {"bf16": 2, "fp8_e4m3": 1, "q8_0": 1.0625, "nvfp4": 0.5625}
# Around 1, in no order: what samples of a quiet machine look like.
SPREAD = (1.0, 0.996, 1.003, 0.999, 1.008, 1.001, 0.994, 1.002, 0.998, 1.005, 0.997)


def summary(samples):
    ordered = sorted(samples)
    n = len(ordered)
    return {
        "median": ordered[n // 2],
        "q1": ordered[n // 4],
        "q3": ordered[3 * n // 4],
        "min": ordered[0],
        "max": ordered[-1],
        "n": n,
    }


def set_times(row, samples):
    row["samples_ns"] = samples
    row["canary_mb_per_s"] = [50000] * len(samples)
    row["pace_mops"] = [3000] * len(samples)
    ordered, k = sorted(samples), {11: 2}.get(len(samples), 0)  # binomial, 95 %
    row["step_interval_ns"] = [ordered[k - 1], ordered[-k]] if k else None
    row["step_ns"] = summary(samples)
    row["attend_ns"] = summary([ns * 0.99 for ns in samples])
    row["append_ns"] = summary([ns * 0.01 for ns in samples])
    row["read_gb_per_s"] = row["kv_read_bytes"] / row["attend_ns"]["median"]
    row["percent_of_ceiling"] = 100 * row["read_gb_per_s"] / row["ceiling_gb_per_s"]


def group(kind, words, formula, pool, read):
    return {
        "kind": kind,
        "words": words,
        "layers": 2,
        "kernel": "tiled",
        "formula_bytes": formula,
        "pool_bytes": pool,
        "read_bytes": read,
        "written_bytes": 4096,
        "ns": 5000000,
        "share_percent": 100,
    }


def make_row(fmt="bf16", tokens=8192, step_ns=10e6, **other):
    per_token = int(8192 * VALUE_BYTES[fmt])
    size = per_token * tokens
    row = {
        "schema_version": 1,
        "kvgauge_version": "0.1.0",
        "git": "0123456789ab",
        "time_utc": "2026-11-30T12:00:00Z",
        "host": None,
        "argv": ["kvgauge", "run", "-m", "8x128/g4x2l", "-o", "jsonl"],
        "seed": 1,
        "suite": None,
        "backend": "cpu",
        "device": "Test CPU",
        "driver": None,
        "cuda": None,
        "kernel": "tiled",
        "threads": 2,
        "model": "8x128/g4x2l",
        "k_format": fmt,
        "v_format": fmt,
        "index_format": None,
        "tokens": tokens,
        "seqs": 1,
        "tp": 1,
        "page_tokens": 16,
        "page_order": "shuffled",
        "data": "normal",
        "rotate": "none",
        "formula_bytes": size,
        "paged_bytes": size,
        "pool_bytes": size + 2056,
        "driver_bytes": None,
        "resident_bytes": size + 4096,
        "workspace_bytes": 68576,
        "formula_bytes_per_token": per_token,
        "pool_bytes_per_token": per_token + 2056 / tokens,
        "formula_tokens_per_gb": 1e9 / per_token,
        "pool_tokens_per_gb": 1e9 / (per_token + 2056 / tokens),
        "driver_tokens_per_gb": None,
        "kv_read_bytes": size,
        "kv_written_bytes": per_token,
        "padding_bytes": 0,
        "shared_bytes": 0,
        "partial_bytes": 0,
        "spare_bytes": 0,
        "page_table_bytes": 2056,
        "tensor_scale_bytes": 0,
        "groups": [group("full", "2 full 8x128", size, size, size)],
        "kv_tokens_per_s": 1e9 / step_ns,
        "step_tokens_per_s": None,
        "weights_ns": None,
        "weights_read_bytes": None,
        "weights_format": None,
        "weights_library": None,
        "weights_gb_per_s": None,
        "weights_error": None,
        "step_parts": None,
        "step_speed_vs_baseline": None,
        "kv_overtakes_weights_tokens": None,
        "ceiling_tokens_per_s": 1000.0,
        "ceiling_gb_per_s": 50.0,
        "kv_speed_vs_baseline": 1,
        "tokens_vs_baseline": 2 / VALUE_BYTES[fmt],
        "ranks": None,
        "slowest_rank": None,
        "replicated_bytes": None,
        "reduce_bytes": None,
        "reduce_ns": None,
        "per_rank": None,
        "kernel_error": 6.1e-07,
        "k_error": 0.0015,
        "v_error": 0.0016,
        "format_error": 0.0023 * 2 / VALUE_BYTES[fmt],
        "verified_fraction": 0.01,
        "cold": True,
        "canary_drift_percent": 0.4,
        "stopped_by": "interval",
        "outliers": 0,
        "launch_ns": 2500,
        "stability": "steady",
        "clocks": None,
        "temperature": None,
        "power_w": None,
        "energy_j": None,
        "throttle_reasons": None,
        "other_processes": None,
        "other_process_bytes": None,
        "other_load_percent": None,
        "status": "ok",
        "reason": None,
    }
    set_times(row, [int(step_ns * x) for x in SPREAD])
    row.update(other)
    return row


def without_speed(row, status, reason):
    """The row as it is when its check failed, or when it was never run."""
    for name in ("step_ns", "attend_ns", "append_ns", "samples_ns", "kv_tokens_per_s", "read_gb_per_s",
                 "ceiling_gb_per_s", "ceiling_tokens_per_s", "percent_of_ceiling", "canary_drift_percent",
                 "kv_speed_vs_baseline", "canary_mb_per_s", "pace_mops", "step_interval_ns", "stopped_by",
                 "outliers", "launch_ns", "stability"):  # fmt: skip
        row[name] = None
    row.update(status=status, reason=reason)
    return row


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


class ScriptTest(unittest.TestCase):
    """A folder of its own, and one script run in it."""

    script = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, content):
        path = self.folder / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else lines(content), "utf-8")
        return str(path)

    def run_script(self, *words):
        """(exit code, stdout, stderr)"""
        path = next(p for p in map(pathlib.Path, sys.path) if (p / self.script).exists())
        out, err = io.StringIO(), io.StringIO()
        argv, sys.argv, here = sys.argv, [self.script, *words], os.getcwd()
        try:
            os.chdir(self.folder)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                runpy.run_path(str(path / self.script), run_name="__main__")
        except SystemExit as exit_:
            return exit_.code, out.getvalue(), err.getvalue()
        finally:
            sys.argv = argv
            os.chdir(here)
        raise AssertionError("the script did not end with an exit code")
