"""Rows of `kvgauge run`, as JSON lines, read for compare.py and report.py.

What a column means is said in host/result_fields.def. Here every value is held to its kind, so that
the programs need not ask again; a column that is not there is null. Leaves to its callers what to
do with the rows."""

import json
import math
import sys

SCHEMA = 1
TEXT = (
    "kvgauge_version git time_utc host suite backend device driver cuda kernel model k_format "
    "v_format index_format page_order data rotate weights_format weights_library clocks stopped_by "
    "stability status reason"
).split()
NUMBER = (
    "seed threads tokens seqs tp page_tokens formula_bytes paged_bytes pool_bytes driver_bytes "
    "resident_bytes workspace_bytes formula_bytes_per_token pool_bytes_per_token "
    "formula_tokens_per_gb pool_tokens_per_gb driver_tokens_per_gb kv_read_bytes kv_written_bytes "
    "padding_bytes shared_bytes partial_bytes spare_bytes page_table_bytes tensor_scale_bytes "
    "kv_tokens_per_s step_tokens_per_s ceiling_tokens_per_s read_gb_per_s ceiling_gb_per_s "
    "percent_of_ceiling kv_speed_vs_baseline tokens_vs_baseline kernel_error k_error v_error "
    "format_error verified_fraction canary_drift_percent outliers launch_ns temperature power_w "
    "energy_j other_processes other_process_bytes other_load_percent weights_read_bytes "
    "weights_gb_per_s weights_error step_speed_vs_baseline kv_overtakes_weights_tokens ranks "
    "slowest_rank replicated_bytes reduce_bytes"
).split()
SIGNED = ("canary_drift_percent",)
SUMMARY = ("step_ns", "attend_ns", "append_ns", "weights_ns", "reduce_ns")
GROUP_TEXT = ("kind", "words", "kernel")
GROUP_NUMBER = (
    "layers",
    "formula_bytes",
    "pool_bytes",
    "read_bytes",
    "written_bytes",
    "ns",
    "share_percent",
)
PART_TEXT = ("part",)
PART_NUMBER = ("read_bytes", "bytes_percent", "ns", "time_percent")
RANK_TEXT = ("device",)
RANK_NUMBER = (
    "rank threads formula_bytes pool_bytes kv_read_bytes step_ns append_ns attend_ns kv_ns "
    "reduce_ns weights_ns ceiling_gb_per_s"
).split()
# Options that change what is measured and have no column: they are found in argv.
ASKED_BY_OPTION = {
    "--kv-scale": "one",
    "--state-format": "f32",
    "--lengths": "equal",
    "--share-prefix": "0",
    "--window-as": "window",
    "--draft-layers": "0",
    "--kernel": None,
}


class Unreadable(Exception):
    """One line of text for stderr: file, line, what is wrong. Exit code 2."""


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _number(text):
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no finite number")
    # Squares and quotients of such numbers are finite, too.
    if value != 0 and not 1e-30 <= abs(value) <= 1e30:
        raise ValueError(f"{text[:20]} is no measure of anything")
    return value


def _whole(text):
    if len(text) > 30:
        raise ValueError(f"{text[:20]}... is no count of anything")
    return int(text)


def _refuse(text):
    raise ValueError(f"{text} is no JSON")


def parse_json(text):
    """As json.loads, of standard JSON with numbers alone that can be measured or counted; ValueError
    for the rest."""
    try:
        return json.loads(text, parse_float=_number, parse_int=_whole, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_text(path):
    try:
        if path == "-":
            data = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                data = file.read()
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        # What a full disk or a kill leaves may end within a character: a cut-off line like others.
        if error.end == len(data) and error.reason == "unexpected end of data":
            return data[: error.start].decode("utf-8") + "\ufffd"
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(
            f"{path} line {line}: no text in UTF-8: is this a file of `kvgauge run --save`?"
        ) from None


def read_lines(path, what, talk):
    """[(number of the line, what it holds)]; of a last line that is cut off `talk` hears."""
    lines = read_text(path).split("\n")
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append((number, parse_json(line)))
        except ValueError as error:
            if number == len(lines) and line.lstrip().startswith("{"):
                talk(f"{path} line {number}: cut off, left out")
                continue
            raise Unreadable(f"{path} line {number}: no JSON: {error}") from None
    if not found:
        raise Unreadable(f"{path}: no {what} in it")
    return found


def _fail(where, name, value, allowed):
    shown = json.dumps(value)
    raise Unreadable(
        f"{where}: {name} is {shown if len(shown) <= 40 else shown[:40] + '...'}, not {allowed}"
    )


def _check_kinds(where, values, texts, numbers, of):
    for name in texts:
        value = values.setdefault(name, None)
        if not isinstance(value, (str, type(None))):
            _fail(where, name + of, value, "a text")
        if value is not None:  # half a character, as JSON can write it, cannot be printed
            values[name] = value.encode("utf-8", "replace").decode("utf-8")
    for name in numbers:
        value = values.setdefault(name, None)
        if value is None:
            continue
        if not is_number(value) or (value < 0 and name not in SIGNED):
            _fail(where, name + of, value, "a number, 0 or more")


def _check_lists(where, row):
    for name, good, allowed in (
        ("argv", lambda word: isinstance(word, str), "a list of words"),
        ("samples_ns", lambda ns: is_number(ns) and ns > 0, "a list of times"),
        ("step_interval_ns", lambda ns: is_number(ns) and ns > 0, "two times"),
        ("pace_mops", lambda mb: is_number(mb) and mb >= 0, "a list of speeds"),
        ("canary_mb_per_s", lambda mb: is_number(mb) and mb >= 0, "a list of speeds"),
        ("groups", lambda _: True, "a list of objects"),
        ("step_parts", lambda _: True, "a list of objects"),
        ("per_rank", lambda _: True, "a list of objects"),
    ):
        if row.setdefault(name, None) is None:
            row[name] = []
        if not isinstance(row[name], list) or not all(map(good, row[name])):
            _fail(where, name, row[name], allowed)
    for name, texts, numbers, of in (
        ("groups", GROUP_TEXT, GROUP_NUMBER, " of a group"),
        ("step_parts", PART_TEXT, PART_NUMBER, " of a part of a step"),
        ("per_rank", RANK_TEXT, RANK_NUMBER, " of a rank"),
    ):
        for part in row[name]:
            if not isinstance(part, dict):
                _fail(where, f"one of {name}", part, "an object")
            _check_kinds(where, part, texts, numbers, of)


def check_row(where, row):
    """Every column of its kind or null, lists empty instead."""
    if not isinstance(row, dict) or "model" not in row or "k_format" not in row:
        raise Unreadable(f"{where}: no row of `kvgauge run` (model, k_format ...)")
    if row.get("schema_version") != SCHEMA:
        raise Unreadable(
            f"{where}: schema_version {json.dumps(row.get('schema_version'))[:40]}; "
            f"this program reads {SCHEMA}"
        )
    _check_kinds(where, row, TEXT, NUMBER, "")
    for name in SUMMARY:
        summary = row.setdefault(name, None)
        if summary is not None and not (
            isinstance(summary, dict) and is_number(summary.get("median")) and summary["median"] > 0
        ):
            _fail(where, name, summary, "a summary with a median")
    if not isinstance(row.setdefault("cold", None), (bool, type(None))):
        _fail(where, "cold", row["cold"], "true or false")
    _check_lists(where, row)


def read_rows(path, talk):
    rows = []
    for number, row in read_lines(path, "rows", talk):
        check_row(f"{path} line {number}", row)
        rows.append(row)
    return rows


def option(row, name):
    """The value argv gives this option, else its default. A later one wins, as for the program."""
    value = ASKED_BY_OPTION[name]
    words = row["argv"]
    for i, word in enumerate(words):
        if word == name and i + 1 < len(words):
            value = words[i + 1]
        elif word.startswith(name + "="):
            value = word[len(name) + 1 :]
    return value


def pair(row):
    """The format in one word: `q8_0`, or `q8_0/q4_0` where K and V differ."""
    k, v = row["k_format"] or "?", row["v_format"] or row["k_format"] or "?"
    return k if k == v else f"{k}/{v}"


def timed(row):
    """Whether the row is right and has times: if its check failed it has no speed."""
    return (
        row["status"] == "ok" and row["step_ns"] is not None and (row["ceiling_gb_per_s"] or 0) > 0
    )


def bytes_words(number):
    """536870912 as 512 MiB; bytes where a unit would have to be rounded."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number and number * 100 % size == 0 and number >= size:
            return f"{number / size:,.2f}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{number:,.0f} bytes"


def three(number):
    """Three digits, and no exponent where that can be: 0.0123, 43.4, 7.00, 1,250."""
    return f"{number:,.0f}" if 100 <= number < 1e15 else f"{number:#.3g}".rstrip(".")


def counted(number, word):
    """1 row, 2 rows"""
    return f"{plain(number)} {word}" + ("" if number == 1 else "s")


def plain(number):
    """1234567 as 1,234,567; up to one digit behind the point where there is something."""
    return f"{number:,.0f}" if number == round(number) or abs(number) >= 1000 else f"{number:,.1f}"
