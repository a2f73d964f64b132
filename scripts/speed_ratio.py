"""How much slower one row of `kvgauge run` is than another, with an interval; for compare.py.

Nothing is assumed about how samples are distributed. What the canary read beside a sample says how
fast the machine read memory just then; whether a step felt that is for its own samples to show."""

import math
import statistics
from collections import namedtuple

Ratio = namedtuple("Ratio", "ratio low high attend")
MOVED = 1.1  # the canary's quartiles, within a row
LEAST_TO_FOLLOW = 20  # samples; below, chance alone looks like it too often


def median_rank(n):
    """The largest k for which P(Binomial(n, 1/2) < k) is at most 2.5 %; 0 below 6."""
    below, k = 0.0, 0
    while True:
        below += (
            math.comb(n, k) * 0.5**n
            if n < 1000
            else math.exp(
                math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2)
            )
        )
        if below > 0.025:
            return k
        k += 1


def median_interval(values):
    """(low, high) of the median by order statistics: the k-th smallest and the k-th largest value, k
    median_rank's. Below 6 there is no interval at 95 %: all of them."""
    ordered = sorted(values)
    k = max(median_rank(len(ordered)), 1)
    return ordered[k - 1], ordered[-k]


def quartiles(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 4], statistics.median(ordered), ordered[-1 - len(ordered) // 4]


def has_readings(row):
    canary = row["canary_mb_per_s"]
    return len(canary) == len(row["samples_ns"]) and min(canary) > 0


def at_the_ceiling(row):
    """Each time as it would have been at the row's ceiling, had it followed the canary."""
    scale = row["ceiling_gb_per_s"] * 1000
    return [ns * mb / scale for ns, mb in zip(row["samples_ns"], row["canary_mb_per_s"])]


def follows_canary(row):
    """Whether the samples show it: more than half of what they vary by is gone with what the canary
    varied by. None: it varied too little to tell."""
    low, _, high = quartiles(row["canary_mb_per_s"])
    if high / low <= MOVED:
        return None
    if len(row["samples_ns"]) < LEAST_TO_FOLLOW:
        return False
    low, _, high = quartiles(row["samples_ns"])
    left_low, _, left_high = quartiles(at_the_ceiling(row))
    return math.log(left_high / left_low) < math.log(high / low) / 2


def same_machine(a, b):
    return a["device"] is not None and all(
        a[name] == b[name] for name in ("backend", "device", "threads")
    )


def drift(row):
    return 1 + abs(row["canary_drift_percent"] or 0) / 100


def canary_moved(a, b, readings):
    """By which factor it did from one row to the other, quartile by quartile; as far as that is known
    by medians alone, and by what it drifted within each."""
    if not readings:
        ceilings = b["ceiling_gb_per_s"] / a["ceiling_gb_per_s"]
        return max(ceilings, 1 / ceilings) * drift(a) * drift(b)
    pairs = zip(quartiles(a["canary_mb_per_s"]), quartiles(b["canary_mb_per_s"]))
    return max(max(one / other, other / one) for one, other in pairs)


def speed_ratio(a, b):
    """B over A, times in bytes that the ceiling would have read in them. The quotient of the ends is
    wider than 95 %, which is the side to be wrong on. A canary that moved says that the machine
    did, not how much of it a step felt: on one machine the interval reaches from the ratio of plain
    times to that of relative ones, and by as much as it moved beyond both."""
    ceilings = b["ceiling_gb_per_s"] / a["ceiling_gb_per_s"]
    readings = has_readings(a) and has_readings(b)
    reach, unknown = (ceilings, ceilings), 1.0
    shown = (follows_canary(a), follows_canary(b)) if readings else ()
    if True in shown and False not in shown:
        times = at_the_ceiling(a), at_the_ceiling(b)
    else:
        times = a["samples_ns"], b["samples_ns"]
        if same_machine(a, b):
            reach, unknown = (min(ceilings, 1), max(ceilings, 1)), canary_moved(a, b, readings)
        else:
            unknown = drift(a) * drift(b)
    (a_low, a_high), (b_low, b_high) = map(median_interval, times)
    attend = None
    if a["attend_ns"] and b["attend_ns"]:
        attend = b["attend_ns"]["median"] / a["attend_ns"]["median"] * ceilings
    return Ratio(
        statistics.median(times[1]) / statistics.median(times[0]) * ceilings,
        b_low / a_high * reach[0] / unknown,
        b_high / a_low * reach[1] * unknown,
        attend,
    )
