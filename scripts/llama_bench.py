"""--llama-bench of compare.py: how fast an engine really reads its KV cache, and what share of our
ceiling that is.

llama-bench times generation behind contexts of different depth. Time per token is fitted, by least
squares, as a + b * n_depth: a is weights and the rest, b what one more token of context costs.
Bytes per token of context over b is the rate at which the cache is read."""

import statistics
import sys

import text_table
from result_rows import (
    Unreadable,
    is_number,
    pair,
    parse_json,
    read_lines,
    read_rows,
    read_text,
    timed,
)

GROWING = ("full", "latent", "compressed", "index")  # kinds whose reads grow with the context
COLUMNS = [
    ("model_type", "model (llama-bench)", str),
    ("type_k", "K type", str),
    ("type_v", "V type", str),
    ("points", "points", str),
    ("base_ns", "a ms", lambda ns: f"{ns / 1e6:.3f}"),
    ("slope_ns", "b ns/token", "{:.2f}".format),
    ("worst_residual_percent", "off by %", "{:.1f}".format),
    ("bytes_per_token", "KV B/token", "{:.0f}".format),
    ("read_gb_per_s", "KV read GB/s", "{:.1f}".format),
    ("ceiling_gb_per_s", "ceiling GB/s", "{:.1f}".format),
    ("percent_of_ceiling", "% of ceiling", "{:.1f}".format),
    ("note", "note", str),
]


def add_options(parser):
    group = parser.add_argument_group(
        "an engine beside ours",
        "At most one result file then: it gives the bytes per token and the ceiling.",
    )
    group.add_argument(
        "--llama-bench",
        metavar="FILE",
        help="JSON or JSON lines of llama-bench, with several -d: "
        "time per token is fitted as a + b * n_depth for each pair of types; the KV bytes of one "
        "token over b is the engine's read rate",
    )
    group.add_argument(
        "--bytes-per-token",
        metavar="TYPE=B,...",
        help="KV bytes of a token of context, all layers: "
        "f16=6144,q8_0=3264,q8_0/q4_0=2496 (K/V)",
    )
    group.add_argument(
        "--model",
        metavar="NAME",
        help="the model of our rows that llama-bench ran (where there are several)",
    )
    group.add_argument("--ceiling", metavar="GB/s", help="instead of the one in our rows")


def entries(path, talk):
    text = read_text(path) if path != "-" else None
    if text is not None and text.lstrip().startswith("["):
        try:
            return [(f"entry {i}", entry) for i, entry in enumerate(parse_json(text), 1)]
        except ValueError as error:
            raise Unreadable(f"{path}: no JSON: {error}") from None
    return [(f"line {number}", entry) for number, entry in read_lines(path, "entries", talk)]


def points_of(path, talk):
    """{(model_type, type_k, type_v): [(n_depth, ns per token)]}, of tests that generate alone."""
    found = {}
    for where, entry in entries(path, talk):
        if not isinstance(entry, dict) or "avg_ns" not in entry:
            raise Unreadable(f"{path} {where}: no entry of llama-bench (avg_ns, n_gen ...)")
        for name in ("n_gen", "avg_ns", "n_depth"):
            if not is_number(entry.get(name)) or not 0 <= entry[name] < 1e15:
                raise Unreadable(
                    f"{path} {where}: {name} is missing or no number that can be; n_depth comes with -d"
                )
        if entry["n_gen"] <= 0 or entry.get("n_prompt"):
            continue
        key = tuple(str(entry.get(name) or "?") for name in ("model_type", "type_k", "type_v"))
        found.setdefault(key, []).append((entry["n_depth"], entry["avg_ns"] / entry["n_gen"]))
    if not found:
        raise Unreadable(f"{path}: no test that generates (n_gen above 0, n_prompt 0) in it")
    return found


def fit(points):
    """(a, b, the largest distance of a point from the line in percent); None with one depth."""
    depth = statistics.fmean(d for d, _ in points)
    time = statistics.fmean(t for _, t in points)
    spread = sum((d - depth) ** 2 for d, _ in points)
    if spread == 0:
        return None
    b = sum((d - depth) * (t - time) for d, t in points) / spread
    a = time - b * depth
    return a, b, max(abs(t - a - b * d) / t * 100 if t > 0 else 0 for d, t in points)


def given_bytes(text):
    found = {}
    for word in (text or "").split(",") if text else []:
        name, _, value = word.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            raise Unreadable(f"--bytes-per-token {word}: TYPE=BYTES, as f16=6144") from None
        if not 0 < found[name] < 1e15:
            raise Unreadable(f"--bytes-per-token {word}: above 0, and a number that can be")
    return found


def read_of(row):
    """Bytes read per token of context by what grows with it."""
    tokens = row["tokens"] * row["seqs"]
    if row["groups"]:
        return sum(g["read_bytes"] or 0 for g in row["groups"] if g["kind"] in GROWING) / tokens
    return row["kv_read_bytes"] / tokens


def our_bytes(rows):
    """{format: bytes per token of context}. Of two lengths the difference: windows, states and chosen
    rows (top-k) do not grow. Else what the growing groups of the one length read."""
    lengths = {}
    for row in rows:
        if row["kv_read_bytes"] and row["tokens"] and row["seqs"] and row["status"] == "ok":
            lengths.setdefault(pair(row), {})[row["seqs"], row["tokens"]] = row
    found = {}
    for name, by_length in lengths.items():
        short, long = by_length[min(by_length)], by_length[max(by_length)]
        if short["seqs"] == long["seqs"] and short is not long:
            found[name] = (
                (long["kv_read_bytes"] - short["kv_read_bytes"])
                / (long["tokens"] - short["tokens"])
                / long["seqs"]
            )
        else:
            found[name] = read_of(long)
    return found


def bytes_for(name, known):
    """By the engine's name of a type; f16 and bf16 have the same bytes."""
    for other in (
        name,
        name.replace("bf16", "f16"),
        name.replace("f16", "bf16").replace("bbf16", "bf16"),
        "/".join(f"{one}_ggml" for one in name.split("/")),
    ):
        if known.get(other, 0) > 0:
            return known[other]
    return None


def ours(options, talk):
    """(bytes per token by format, the ceiling or None) from the result file, if one is given."""
    if not options.files:
        return {}, None
    rows = read_rows(options.files[0], talk)
    models = sorted({row["model"] or "?" for row in rows})
    wanted = options.model or models[0]
    if wanted not in models or (options.model is None and len(models) > 1):
        raise Unreadable(
            f"{options.files[0]}: which model did llama-bench run? --model, one of "
            + ", ".join(models)
        )
    rows = [row for row in rows if row["model"] == wanted]
    if options.model is None:
        talk(f"taken to be the same model: {wanted} of {options.files[0]}")
    ceilings = [row["ceiling_gb_per_s"] for row in rows if timed(row)]
    return our_bytes(rows), statistics.median(ceilings) if ceilings else None


def line_of(key, points, known, ceiling):
    model, type_k, type_v = key
    row = dict.fromkeys((c[0] for c in COLUMNS))
    row.update(
        model_type=model,
        type_k=type_k,
        type_v=type_v,
        points=len(points),
        ceiling_gb_per_s=ceiling,
        bytes_per_token=bytes_for(type_k if type_k == type_v else f"{type_k}/{type_v}", known),
    )
    line = fit(points)
    if line is None:
        row["note"] = "one depth alone: nothing to fit"
        return row
    row["base_ns"], row["slope_ns"], row["worst_residual_percent"] = line
    if row["slope_ns"] <= 0:
        row["note"] = "time does not grow with the context"
    elif row["bytes_per_token"] is None:
        row["note"] = (
            "bytes per token not known: --bytes-per-token, or rows of kvgauge run in this format"
        )
    else:
        row["read_gb_per_s"] = row["bytes_per_token"] / row["slope_ns"]
        if ceiling:
            row["percent_of_ceiling"] = 100 * row["read_gb_per_s"] / ceiling
            if row["percent_of_ceiling"] > 102:
                row["note"] = "more than the ceiling: another model, or another machine?"
    return row


def run(options, talk):
    if len(options.files) > 1:
        raise Unreadable("--llama-bench: at most one result file beside it")
    points = points_of(options.llama_bench, talk)
    known, ceiling = ours(options, talk)
    known.update(given_bytes(options.bytes_per_token))
    if options.ceiling is not None:
        try:
            ceiling = float(options.ceiling)
        except ValueError:
            ceiling = 0
        if not 0 < ceiling < 1e9:
            raise Unreadable(f"--ceiling {options.ceiling}: GB/s, above 0")
    rows = [line_of(key, points[key], known, ceiling) for key in points]
    text_table.write(options.output, COLUMNS, rows, sys.stdout)
    return 0
