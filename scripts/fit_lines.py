"""The time of a step as a fixed part and a part per token of context, and where one format passes
another: in the words in which kvgauge run ends, from rows. host/fit.h says what is done and why;
tests/scripts/test_fit.py holds both to the same sentences."""

import math
from collections import namedtuple

LEAST_LENGTHS = 3
FURTHEST = 16

Point = namedtuple("Point", "tokens ns low high")  # low and high: 0 where not known
Line = namedtuple("Line", "fixed slope")
Fit = namedtuple("Fit", "line low high worst_percent lengths first last")


def line_of(points, which):
    """Least squares of relative errors."""
    weights = tokens = ns = 0.0
    for point in points:
        weight = 1 / (point.ns * point.ns)
        weights += weight
        tokens += weight * point.tokens
        ns += weight * getattr(point, which)
    tokens /= weights
    ns /= weights
    spread = both = 0.0
    for point in points:
        weight = 1 / (point.ns * point.ns)
        apart = point.tokens - tokens
        spread += weight * apart * apart
        both += weight * apart * (getattr(point, which) - ns)
    slope = both / spread
    return Line(ns - slope * tokens, slope)


def at(line, tokens):
    return line.fixed + line.slope * tokens


def fit(points):
    """None with fewer than LEAST_LENGTHS distinct lengths; low and high None without intervals."""
    lengths = {point.tokens for point in points}
    if len(lengths) < LEAST_LENGTHS:
        return None
    line = line_of(points, "ns")
    known = all(point.high > 0 for point in points)
    return Fit(
        line,
        line_of(points, "low") if known else None,
        line_of(points, "high") if known else None,
        max(abs(at(line, point.tokens) / point.ns - 1) * 100 for point in points),
        len(lengths),
        min(lengths),
        max(lengths),
    )


def tokens_text(tokens):
    """As the command line takes them: k is 1,024."""
    if tokens < 1024:
        return f"{tokens:.0f}"
    k = tokens / 1024
    shown = k if k < 1024 else k / 1024
    text = f"{shown:.1f}" if shown < 100 else f"{shown:.0f}"
    return (text[:-2] if text.endswith(".0") else text) + ("k" if k < 1024 else "m")


def fit_words(one):
    return (
        f"{one.line.fixed * 1e-3:.1f} us + {one.line.slope:.3f} ns per token ({one.lengths} "
        f"lengths, {tokens_text(one.first)} to {tokens_text(one.last)}; off by "
        f"{one.worst_percent:.1f} % at most)"
    )


def less(a, b):
    return Line(a.fixed - b.fixed, a.slope - b.slope)


def root(line, slope, none):
    """Where a line that goes the way of `slope` crosses 0; `none` where it does not, or below."""
    if not line.slope * slope > 0:
        return none
    found = -line.fixed / line.slope
    return found if found > 0 else none


def interval_words(best, worst, slope, place):
    early = root(best if slope < 0 else worst, slope, 0)
    late = root(worst if slope < 0 else best, slope, math.inf)
    # Away from the lengths the lines of the ends cross those of the medians: no ends there.
    early = 0 if early > place else early
    late = math.inf if late < place else late
    if early > 0 and math.isfinite(late):
        return f" ({tokens_text(early)} to {tokens_text(late)})"
    if math.isfinite(late):
        return f" ({tokens_text(late)} at the latest)"
    if early > 0:
        return f" ({tokens_text(early)} at the earliest, or never)"
    return " (anywhere, by the noise)"


def crossing_words(mine, my_name, base, base_name):
    """A sentence; "" where the two have no lengths in common."""
    first, last = max(mine.first, base.first), min(mine.last, base.last)
    if not first < last:
        return ""
    between = f"between {tokens_text(first)} and {tokens_text(last)}"
    known = mine.low is not None and base.low is not None
    if known:
        best, worst = less(mine.low, base.high), less(mine.high, base.low)
        if all(at(best, n) <= 0 <= at(worst, n) for n in (first, last)):
            return f"{my_name} and {base_name} differ by no more than their noise {between}"
    apart = less(mine.line, base.line)
    place = root(apart, apart.slope, 0)
    if place > last * FURTHEST or place < first / FURTHEST:
        place = 0
    interval = interval_words(best, worst, apart.slope, place) if known and place else ""
    faster_at_first, faster_at_last = at(apart, first) < 0, at(apart, last) < 0
    if faster_at_last and not faster_at_first:
        return f"{my_name} passes {base_name} at {tokens_text(place)} tokens{interval}"
    if faster_at_first and not faster_at_last:
        return f"{my_name} is faster than {base_name} up to {tokens_text(place)} tokens{interval}"
    beyond = ""
    if place:
        how = "faster from" if apart.slope < 0 else "faster up to"
        beyond = f"; extrapolated: {how} {tokens_text(place)} tokens{interval}"
    if faster_at_first:
        return f"{my_name} is faster than {base_name} at every length {between}{beyond}"
    return f"{my_name} never passes {base_name} {between}{beyond}"


def point_of(row):
    low, high = row["step_interval_ns"] if len(row["step_interval_ns"]) == 2 else (0, 0)
    return Point(row["tokens"], row["step_ns"]["median"], low, high)


def sentences(named):
    """named: [(name of the format, whether it is the baseline, its cold rows with times)]."""
    fits = [(name, base, fit([point_of(row) for row in rows])) for name, base, rows in named]
    theirs = next(((name, one) for name, base, one in fits if base), None)
    out = []
    for name, base, one in fits:
        if one is None:
            continue
        out.append(f"{name}: {fit_words(one)}")
        if not base and theirs is not None and theirs[1] is not None:
            words = crossing_words(one, name, theirs[1], theirs[0])
            out += [words] if words else []
    return out
