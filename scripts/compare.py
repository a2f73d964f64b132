#!/usr/bin/env python3
"""kvgauge-compare: result files of `kvgauge run` row by row, relative to each run's own canary.

Matches rows on what was asked, never on the device. Reading is result_rows.py's, the ratio of two
speeds speed_ratio.py's, output text_table.py's, llama-bench files are llama_bench.py's."""

import argparse
import math
import os
import statistics
import sys

import llama_bench
import text_table
from result_rows import ASKED_BY_OPTION, Unreadable, counted, option, pair, plain, read_rows, timed
from speed_ratio import speed_ratio

KEYS = (
    "model k_format v_format index_format tokens seqs tp ranks page_tokens page_order data rotate "
    "weights_read_bytes weights_format kernel"
).split()
SAME_PERCENT = 5.0
ABOUT = """\
Rows of kvgauge run (-o jsonl, --save) of A beside those of B, C ..., matched on what was asked:
model, formats, tokens, sequences, ranks, pages, data, weights read in a step, kernel, and options
that have no column (--kv-scale, --state-format, --lengths, --share-prefix, --window-as,
--draft-layers). Device and threads are a heading. Between backends the kernel counts only where
--kernel asked for one.

  bytes   formula and pool: "equal", or the difference
  step x  step time, B over A: above 1 is slower. On one device whose rows tell the pace of its cores
          beside each sample (pace_mops: cpu) as at one pace: by the power of it, 0.8 to 1.2, with
          which the samples themselves went. Else relative to plain reading (canary_mb_per_s) as far
          as a step feels it: on one device as far as it reads (at 40 % of the ceiling 0.4 of its time
          at most is memory's), wholly where others worked there too (other_load_percent above 5,
          other_processes) or the devices differ
  low-high  of that ratio. Each median by order statistics of its samples (binomial, 95 %, no
          distribution assumed; below 6 samples their whole range, which 5 cover at 94 %; samples
          that lie on their neighbours' side of the median count for fewer). By pace: where it moved
          from one run to the other, that power may be another, by what the samples leave open (0.2 at most). By plain reading on one
          device: from the ratio of plain times to that of times multiplied by the ceilings, as what
          moved the canary may have moved a step by all of that, or by nothing (files without
          readings are widened by the canary drift)
  attend x  the same for attention alone, of whose samples rows keep a summary only
  verdict "same" where the interval contains 1 or the ratio is within 5 %, else "slower" or "faster"

Rows that were hot in a cache, have no times or fewer than 5 samples compare bytes alone.
--max-slowdown takes a row as too slow when even the low end of its interval is above 1 + PCT/100,
and also fails on one that A could and B cannot; a PCT below 5 narrows what is called the same.

Exit: 0; 1 --max-slowdown is exceeded; 2 bad usage, an unreadable file, or nothing in common: the
nearest row is then named with what differs."""


def talk(line):
    print(f"kvgauge-compare: {text_table.clean(line)}", file=sys.stderr)


def count_of(text):
    """1k and 1024 ask for the same."""
    scale = {"k": 1024, "m": 1048576}.get(text[-1:].lower())
    try:
        return int(float(text[:-1] if scale else text) * (scale or 1))
    except (ValueError, OverflowError):
        return text


def key_of(row, one_backend):
    key = {name: row[name] for name in KEYS}
    for name, value in (
        (name, option(row, name)) for name in ASKED_BY_OPTION if name != "--kernel"
    ):
        column = name[2:].replace("-", "_")
        key[column] = row[column] if column in row else count_of(value)
    if key["lengths"] == "mixed":
        key["seed"] = row["seed"]  # draws the lengths
    if not one_backend:
        key["kernel"] = option(row, "--kernel")
    return key


def numbered(rows, one_backend):
    """{what was asked, and how often before: row}: repeated rows pair off in their order. One that was
    interrupted gives way to the next, which --resume measured in its stead."""
    found, seen = {}, {}
    for row in rows:
        key = tuple(key_of(row, one_backend).items())
        before = found.get((key, seen.get(key, 0)))
        if before is None or before["status"] != "interrupted":
            seen[key] = seen.get(key, 0) + 1
        found[key, seen[key]] = row
    return found


def differing(a, b):
    return [name for name in a.keys() | b.keys() if a.get(name) != b.get(name)]


def describe(key, varying=()):
    """A row in words, with what tells it from others of these files."""
    one = dict(key[0])
    size = f"{plain(one['tokens'] or 0)} tokens x {plain(one['seqs'] or 0)}"
    text = f"{one['model']} {pair(one)}, {size}"
    more = [f"{name} {one[name]}" for name in one if name in varying and one[name] is not None]
    return ", ".join([text] + more + ([f"no. {key[1]} of them"] if key[1] > 1 else []))


def verdict(ratio, low, high, same_percent):
    if low <= 1 <= high or abs(ratio - 1) <= same_percent / 100:
        return "same"
    return "slower" if ratio > 1 else "faster"


def no_speed(a, b):
    """Why two rows compare bytes alone, in words; None where they need not."""
    for name, row in (("A", a), ("B", b)):
        if row["status"] != "ok":
            return f"{row['status']} in {name}"
        if not timed(row) or not row["samples_ns"]:
            return f"no times in {name}"
        if row["cold"] is not True:
            return f"hot in {name}: bytes alone"
        if len(row["samples_ns"]) < 5:
            return f"{len(row['samples_ns'])} samples in {name}: too few"
    return None


def bytes_difference(a, b, name):
    return None if a[name] is None or b[name] is None else b[name] - a[name]


def compare_rows(key, a, b, label, same_percent):
    row = dict(key[0])
    row.update(
        other=label,
        device_a=a["device"],
        device_b=b["device"],
        formula_bytes=a["formula_bytes"],
        formula_difference=bytes_difference(a, b, "formula_bytes"),
        pool_bytes=a["pool_bytes"],
        pool_difference=bytes_difference(a, b, "pool_bytes"),
        step_ratio=None,
        interval=None,
        attend_ratio=None,
        verdict=no_speed(a, b),
    )
    if row["verdict"] is None:
        speed = speed_ratio(a, b)
        row.update(
            step_ratio=speed.ratio,
            interval=[speed.low, speed.high],
            attend_ratio=speed.attend,
            verdict=verdict(speed.ratio, speed.low, speed.high, same_percent),
        )
    return row


def too_slow(row, a, b, percent):
    if row["interval"] is None:
        return a["status"] == "ok" and b["status"] != "ok"
    return row["verdict"] == "slower" and row["interval"][0] > 1 + percent / 100


def difference_text(value):
    return "equal" if value == 0 else f"{value:+,.0f}"


def columns_of(varying, several):
    text, times = str, "{:.3f}".format
    return (
        [
            ("other", "file" if several else None, text),
            ("model", "model", text),
            ("k_format", "K format", text),
            ("v_format", "V format", text),
            ("tokens", "tokens", plain),
            ("seqs", "seqs", plain),
        ]
        + [
            (name, name.replace("_", " ") if name in varying else None, text)
            for name in (
                "index_format",
                "tp",
                "ranks",
                "page_tokens",
                "page_order",
                "data",
                "rotate",
                "weights_read_bytes",
                "weights_format",
                "kernel",
                "kv_scale",
                "state_format",
                "lengths",
                "share_prefix",
                "window_as",
                "draft_layers",
            )
        ]
        + [
            ("device_a", None, text),
            ("device_b", None, text),
            ("formula_bytes", "formula B", plain),
            ("formula_difference", "B-A", difference_text),
            ("pool_bytes", "pool B", plain),
            ("pool_difference", "B-A", difference_text),
            ("step_ratio", "step x", times),
            ("interval", "low-high", lambda ends: f"{ends[0]:.3f}-{ends[1]:.3f}"),
            ("attend_ratio", "attend x", times),
            ("verdict", "verdict", text),
        ]
    )


def heading(letter, path, rows):
    """A file's device and run in a line; more of them where rows differ."""
    devices = sorted(
        {
            (r["device"] or "device not named")
            + (f", {counted(r['threads'], 'thread')}" if r["threads"] else "")
            + (f", driver {r['driver']}" if r["driver"] else "")
            for r in rows
        }
    )
    versions = sorted({f"{r['kvgauge_version']} {r['git'] or ''}".strip() for r in rows})
    ceilings = [r["ceiling_gb_per_s"] for r in rows if timed(r)]
    drifts = [abs(r["canary_drift_percent"] or 0) for r in rows if timed(r)]
    text = f"{letter}: {path}: {'; '.join(devices)}; kvgauge {', '.join(versions)}; "
    text += counted(len(rows), "row")
    if ceilings:
        text += f"; ceiling {statistics.median(ceilings):.1f} GB/s, "
        text += f"canary drift at most {max(drifts):.0f} %"
    return text_table.clean(text)


def nothing_in_common(path_a, a, path_b, b):
    mine = [(key, dict(key[0])) for key in a]
    theirs = [dict(key[0]) for key in b]
    names, x, y = min(
        ((differing(one, other), key, other) for key, one in mine for other in theirs),
        key=lambda found: len(found[0]),
    )
    where = "; ".join(
        f"{name}: {dict(x[0]).get(name)} in {path_a}, {y.get(name)} in {path_b}"
        for name in sorted(names)
    )
    talk(f"{path_a} and {path_b} have no row in common; nearest: {describe(x)}: {where}")


def compare_files(paths, options):
    files = [read_rows(path, talk) for path in paths]
    one_backend = len({row["backend"] for rows in files for row in rows}) == 1
    found = [numbered(rows, one_backend) for rows in files]
    keys = [dict(key[0]) for file in found for key in file]
    varying = {name for key in keys for name in key if key[name] != keys[0].get(name)}
    varying -= {"model", "k_format", "v_format", "tokens", "seqs"}
    same_percent = (
        SAME_PERCENT if options.max_slowdown is None else min(SAME_PERCENT, options.max_slowdown)
    )
    table, code = [], 0
    for i in range(1, len(paths)):
        letter = chr(ord("A") + i) if i < 26 else f"no. {i + 1}"
        common = [key for key in found[0] if key in found[i]]
        for path, one, other in ((paths[0], 0, i), (paths[i], i, 0)):
            for key in (key for key in found[one] if common and key not in found[other]):
                talk(f"only in {path}: {describe(key, varying)}")
        if not common:
            nothing_in_common(paths[0], found[0], paths[i], found[i])
            code = 2
        for key in common:
            a, b = found[0][key], found[i][key]
            row = compare_rows(key, a, b, letter, same_percent)
            table.append(row)
            if options.max_slowdown is not None and too_slow(row, a, b, options.max_slowdown):
                talk(
                    f"{paths[i]}: {describe(key, varying)}: {row['verdict']}"
                    + (
                        f" {row['step_ratio']:.3f}x, at least {row['interval'][0]:.3f}x"
                        if row["interval"]
                        else ""
                    )
                )
                code = code or 1
    if options.output in ("table", "md"):
        ending = "\n\n" if options.output == "md" else "\n"
        for i, path in enumerate(paths):
            sys.stdout.write(
                heading(chr(ord("A") + i) if i < 26 else f"no. {i + 1}", path, files[i]) + ending
            )
    if table:
        text_table.write(options.output, columns_of(varying, len(paths) > 2), table, sys.stdout)
    return code


def percent(text):
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError
    return value


def main():
    parser = argparse.ArgumentParser(
        prog="kvgauge-compare",
        description=ABOUT,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="result files; - is stdin")
    parser.add_argument(
        "--max-slowdown", type=percent, metavar="PCT", help="exit 1 when a row is slower by more"
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "md", "csv", "json"),
        default="table",
        help="form of the output (table)",
    )
    llama_bench.add_options(parser)
    options = parser.parse_args()
    try:
        if options.llama_bench is not None:
            return llama_bench.run(options, talk)
        if len(options.files) < 2:
            parser.error("two result files at least, or --llama-bench FILE")
        return compare_files(options.files, options)
    except Unreadable as error:
        talk(str(error))
        return 2


if __name__ == "__main__":
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)
