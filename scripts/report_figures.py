"""Which drawing of report.html shows what of which rows. report_svg.py draws."""

import report_svg as svg
from report_rows import OVERHEADS, group_words, label, overhead_parts, trouble
from report_svg import escape
from report_tables import cell
from result_rows import plain, timed

MOST_MODELS = 24  # of which the errors are drawn


def figure(name, drawn, caption=""):
    caption = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure><b>{escape(name)}</b>{drawn}{caption}</figure>"


def tokens_figure(rows):
    levels = (
        ("formula_tokens_per_gb", "formula"),
        ("pool_tokens_per_gb", "pool"),
        ("driver_tokens_per_gb", "driver"),
    )
    there = [(i, *level) for i, level in enumerate(levels) if any(r[level[0]] for r in rows)]
    shown = []
    for row in rows:
        good = row["status"] == "ok" and row["pool_tokens_per_gb"]
        some = [
            (
                row[name] if good else None,
                i,
                f"{label(row)}, {words}: {cell(row[name])} tokens per GB",
            )
            for i, name, words in there
        ]
        shown.append((label(row), some, plain(round(good)) if good else trouble(row) or "no bytes"))
    drawn = svg.bars(
        "Tokens per GB",
        "longer is better; the number is the pool's",
        shown,
        "tokens per GB (10^9 bytes)",
        [(i, words) for i, _, words in there],
    )
    missing = "" if len(there) > 2 else " What the driver took is not known here."
    return figure(
        "Tokens per GB",
        drawn,
        "By the formula, and by what the pool asked of the allocator." + missing,
    )


def rate_figure(section, index):
    rows = [r for r in section.rows if timed(r) and r["read_gb_per_s"] and r["tokens"]]
    lengths = sorted({row["tokens"] for row in rows})
    if len(lengths) < 2:
        return ""
    series, ceilings = {}, {}
    for row in sorted(rows, key=lambda row: row["tokens"]):
        hot = trouble(row) is not None
        series.setdefault(label(row), []).append(
            (
                row["tokens"],
                row["read_gb_per_s"],
                hot,
                f"{label(row)}, {plain(row['tokens'])} tokens: {row['read_gb_per_s']:.1f} GB/s"
                + (f", {trouble(row)}" if hot else ""),
            )
        )
        ceilings.setdefault(row["tokens"], row["ceiling_gb_per_s"])
    top = max([y for some in series.values() for _, y, _, _ in some] + list(ceilings.values()))
    drawn = svg.points(
        "KV read rate by context",
        "higher is better; the dashed line is the read ceiling",
        [(index[name], some) for name, some in series.items()],
        ("tokens of context (k = 1,024)", lengths, True, svg.tokens),
        ("KV read, GB/s", top),
        [(sorted(ceilings.items()), "read ceiling", "ceiling")],
        [(index[name], name) for name in series],
    )
    return figure(
        "KV read rate by context",
        drawn,
        "Unique K, V and scale bytes over the time of attention. Hollow: hot in a cache, no rate "
        "of the memory.",
    )


def share_figure(rows, index):
    shown = []
    for row in rows:
        share = row["percent_of_ceiling"] if trouble(row) is None else None
        tip = (
            f"{label(row)}: {share:.1f} % of {row['ceiling_gb_per_s']:.1f} GB/s"
            if share is not None
            else ""
        )
        note = f"{share:.0f} %" if share is not None else trouble(row) or "no percentage"
        shown.append((label(row), [(share, index[label(row)] % svg.COLOURS, tip)], note))
    drawn = svg.bars(
        "Percent of the read ceiling",
        "longer is better",
        shown,
        "% of the measured read ceiling",
        (),
        100,
    )
    above = any(trouble(r) is None and (r["percent_of_ceiling"] or 0) > 102 for r in rows)
    return figure(
        "Percent of the read ceiling",
        drawn,
        "Of plain reading in the same run. Rows that are hot, wrong or refused have none."
        + (
            " More than 100 % cannot be: the ceiling was read in a slower moment, or a "
            "cache helped."
            if above
            else ""
        ),
    )


def gain_figure(rows, index):
    series = {}
    for row in rows:
        if timed(row) and row["kv_speed_vs_baseline"] and row["tokens_vs_baseline"]:
            x, y, hot = (
                row["tokens_vs_baseline"],
                row["kv_speed_vs_baseline"],
                trouble(row) is not None,
            )
            series[label(row)] = [
                (
                    x,
                    y,
                    hot,
                    f"{label(row)}: {x:.2f}x fewer bytes, {y:.2f}x as fast"
                    + (f", {trouble(row)}" if hot else ""),
                )
            ]
    if len(series) < 2:
        return ""
    top = svg.ticks(max(max(x, y) for some in series.values() for x, y, _, _ in some))[-1]
    drawn = svg.points(
        "Speed-up against bytes saved",
        "on the dotted diagonal all bytes saved are time saved",
        [(index[name], some) for name, some in series.items()],
        ("bytes of the baseline over bytes (x)", svg.ticks(top), False, svg.number),
        ("KV speed over the baseline (x)", top),
        [([(0, 0), (top, top)], "perfect", "perfect")],
        [(index[name], f"{name} {some[0][1]:.2f}x") for name, some in series.items()],
        lines=False,
    )
    return figure(
        "Speed-up against bytes saved",
        drawn,
        "On the diagonal, all that is saved in bytes is gained in time. " "Hollow: hot in a cache.",
    )


def beyond_figure(rows):
    shown, used = [], set()
    for row in rows:
        formula = row["formula_bytes"] if row["status"] == "ok" else None
        parts = [(i, b) for i, b in overhead_parts(row) if b > 0] if formula else []
        used.update(i for i, _ in parts)
        if formula and row["pool_bytes"] is not None:
            note = f"{100 * (row['pool_bytes'] - formula) / formula:+.3g} %"
        else:
            note = trouble(row) or "no bytes"
        shown.append(
            (
                label(row),
                [
                    (100 * b / formula, i, f"{label(row)}, {OVERHEADS[i][1]}: {plain(b)} bytes")
                    for i, b in parts
                ],
                note,
            )
        )
    drawn = svg.stacks(
        "Bytes beyond the formula",
        "shorter is better; in percent of the formula's bytes",
        shown,
        "% of the formula's bytes",
        [(i, OVERHEADS[i][1]) for i in sorted(used)],
    )
    return figure(
        "Bytes beyond the formula",
        drawn,
        "What the pool takes more than K and V values and block scales.",
    )


def groups_figures(rows):
    """Bytes and time by group of layers, where a model has several."""
    rows = [row for row in rows if row["status"] == "ok" and len(row["groups"]) > 1]
    if not rows:
        return ""
    names = list(dict.fromkeys(group_words(g) for row in rows for g in row["groups"]))
    out = ""
    for title, column, words in (
        ("Where the bytes are", "pool_bytes", "pool bytes"),
        ("Where the time goes", "ns", "time of each group by itself"),
    ):
        shown = []
        for row in rows:
            total = sum(g[column] or 0 for g in row["groups"])
            if total > 0:
                shown.append(
                    (
                        label(row),
                        [
                            (
                                100 * (g[column] or 0) / total,
                                names.index(group_words(g)),
                                f"{group_words(g)}: {100 * (g[column] or 0) / total:.1f} %",
                            )
                            for g in row["groups"]
                        ],
                        "",
                    )
                )
        if shown:
            drawn = svg.stacks(
                title,
                f"{words}, by group of layers",
                shown,
                f"% of {words}",
                list(enumerate(names)),
                100,
            )
            out += figure(title, drawn, "By group of layers.")
    return out


def error_figures(sections):
    models = {}
    for section in sections:
        for row in section.rows:
            if row["status"] == "ok" and row["format_error"] is not None:
                found = models.setdefault(row["model"] or "?", {})
                old = found.get((label(row), row["data"]))
                if old is None or (row["tokens"] or 0) >= (old["tokens"] or 0):
                    found[label(row), row["data"]] = row
    out = ""
    for model, found in list(models.items())[:MOST_MODELS]:
        kinds = list(dict.fromkeys(data or "?" for _, data in found))
        lines, exact = {}, []
        for (name, data), row in found.items():
            if row["format_error"] > 0:
                lines.setdefault(name, []).append(
                    (
                        row["format_error"],
                        kinds.index(data or "?"),
                        f"{name}, {data or '?'} data: {row['format_error']:.4g}",
                    )
                )
            else:
                exact.append(name)
        if lines:
            drawn = svg.dots(
                f"Format error, {model}",
                "further left is better",
                list(lines.items()),
                "relative L2 error of attention's output",
                [(i, f"{k} data") for i, k in enumerate(kinds)],
            )
            out += figure(
                f"Format error, {model}",
                drawn,
                f"No error at all: {', '.join(exact)}." if exact else "",
            )
    if not out:
        return ""
    return (
        "<h2>What the formats lose</h2><p>Attention over what is stored, against unquantised "
        "values, both in double "
        'precision. It is not perplexity.</p><div class="figures">' + out + "</div>"
    )
