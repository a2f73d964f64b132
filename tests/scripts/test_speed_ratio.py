"""scripts/speed_ratio.py on made-up machines: slower for a while, restless, of another level. No time
here was measured; noise comes from a seeded generator."""

import random
import statistics
import unittest

from sample_rows import make_row, set_times
from speed_ratio import follows_canary, median_interval, speed_ratio

SEEDS = range(20)


def measured(rng, slowness, true=1.0, feels=1.0, noise=0.01, n=40, level=1.0):
    """A row of n samples. slowness: of the machine, of the part of the run that is over (0 to 1);
    feels: the power of it that the step feels, where the canary feels all."""
    slow = [level * slowness(i / n) for i in range(n)]
    row = make_row()
    set_times(row, [int(10e6 * true * s**feels * rng.lognormvariate(0, noise)) for s in slow])
    row["canary_mb_per_s"] = [int(50000 / s * rng.lognormvariate(0, noise)) for s in slow]
    row["ceiling_gb_per_s"] = statistics.median(row["canary_mb_per_s"]) / 1000
    return row


def steady(_):
    return 1.0


def slow_in_the_middle(over):
    return 1.3 if 1 / 3 <= over < 2 / 3 else 1.0


def slow_from(part):
    return lambda over: 1.3 if over >= part else 1.0


class MachineTest(unittest.TestCase):
    def pairs(self, *slowness, true=1.0, **other):
        for seed in SEEDS:
            rng = random.Random(seed)
            a = measured(rng, slowness[0], **other)
            yield speed_ratio(a, measured(rng, slowness[1], true=true, **other))

    def test_slow_for_a_while(self):
        """Where the step follows the canary, and where both runs were slow for a while."""
        middle = slow_in_the_middle
        for a, b, feels in ((middle, middle, 1.0), (steady, middle, 1.0), (middle, middle, 0.0)):
            for found in self.pairs(a, b, feels=feels):
                self.assertTrue(0.95 < found.low <= 1 <= found.high < 1.05, found)
            for found in self.pairs(a, b, feels=feels, true=1.1):
                self.assertGreater(found.low, 1.05)
                self.assertLess(found.high, 1.15)

    def test_slow_for_a_while_and_the_step_did_not_feel_it(self):
        """Which no sample shows: the canary alone moved, and that is as wide as the interval is."""
        for found in self.pairs(steady, slow_in_the_middle, feels=0.0):
            self.assertTrue(0.7 < found.low < 1 < found.high < 1.4, found)

    def test_slow_for_the_larger_part_of_one_run(self):
        for feels in (1.0, 0.0, 0.5, -0.5):
            for a, b in ((0.6, 0.4), (0.4, 0.6), (0.5, 0.5)):
                for found in self.pairs(slow_from(a), slow_from(b), feels=feels):
                    self.assertTrue(found.low <= 1 <= found.high, (feels, a, b, found))

    def test_another_level(self):
        """What moved the canary for a whole run may have moved a step by less, more, or the other
        way."""
        rng = random.Random(1)
        a = measured(rng, steady)
        for feels in (1.0, 0.0, 0.5, -0.9, 1.9):
            b = measured(rng, steady, feels=feels, level=1.25)
            found = speed_ratio(a, b)
            self.assertTrue(found.low <= 1 <= found.high, found)
            # Another machine has another ceiling, and plain times tell nothing.
            b["device"] = "Another CPU"
            found = speed_ratio(a, b)
            self.assertAlmostEqual(found.ratio, 1.25 ** (feels - 1), delta=0.02)
            self.assertLess(found.high / found.low, 1.05)
            b["canary_drift_percent"] = 10.4
            self.assertAlmostEqual(speed_ratio(a, b).low, found.low * 1.004 / 1.104)

    def test_noise_is_not_taken_for_the_canarys(self):
        for noise in (0.001, 0.01, 0.1):
            for seed in range(100):
                rng = random.Random(seed)
                row = measured(rng, steady, noise=noise, n=20)
                self.assertIsNot(follows_canary(row), True, seed)
                if noise < 0.1:
                    self.assertIsNone(follows_canary(row), seed)
                row = measured(rng, slow_from(0.5), noise=min(noise, 0.02), n=20)
                self.assertIs(follows_canary(row), True, seed)
                for name in ("samples_ns", "canary_mb_per_s"):
                    row[name] = row[name][:19]
                self.assertIs(follows_canary(row), False, seed)

    def test_one_run_that_follows_and_one_that_does_not(self):
        """What the one shows the other denies."""
        for seed in SEEDS:
            rng = random.Random(seed)
            a = measured(rng, slow_from(0.6))
            b = measured(rng, slow_from(0.4), feels=0.0)
            self.assertEqual((follows_canary(a), follows_canary(b)), (True, False))
            for found in (speed_ratio(a, b), speed_ratio(b, a)):
                self.assertTrue(found.low <= 1 <= found.high, found)

    def test_a_copy_of_which_only_the_samples_are_slower(self):
        a = measured(random.Random(1), steady)
        b = dict(a, samples_ns=[ns * 1.1 for ns in a["samples_ns"]])
        self.assertAlmostEqual(speed_ratio(a, b).ratio, 1.1, 9)
        self.assertGreater(speed_ratio(a, b).low, 1.05)

    def test_without_readings_the_drift_widens(self):
        a, b = make_row(step_ns=1000), make_row(step_ns=2000)
        a.update(canary_drift_percent=10.0, samples_ns=[900, 1000, 1000, 1000, 1200])
        b.update(canary_drift_percent=-20.0, samples_ns=[1800, 2000, 2000, 2000, 2100])
        for readings in ([], [50000], [50000, 50000, 0, 50000, 50000]):
            a["canary_mb_per_s"] = b["canary_mb_per_s"] = readings
            found = speed_ratio(a, b)
            self.assertEqual(found.ratio, 2)
            self.assertAlmostEqual(found.low, 1800 / 1200 / 1.1 / 1.2)
            self.assertAlmostEqual(found.high, 2100 / 900 * 1.1 * 1.2)


class IntervalTest(unittest.TestCase):
    def test_ranks_of_the_tables(self):
        # 95 % of the median: the ranks that tables of the sign test give.
        for n, low, high in ((5, 1, 5), (6, 1, 6), (8, 1, 8), (9, 2, 8), (11, 2, 10), (20, 6, 15),
                             (50, 18, 33), (100, 40, 61)):  # fmt: skip
            self.assertEqual(median_interval(range(n, 0, -1)), (low, high), n)
        low, high = median_interval(range(1, 2002))
        self.assertEqual(low + high, 2002)
        self.assertAlmostEqual(low, 1001 - 0.98 * 2001**0.5, delta=1.5)


if __name__ == "__main__":
    unittest.main()
