"""Writes within.json beside it: intervals of quantiles within one run by the stationary bootstrap of Politis and Romano, computed from the
samples themselves, one by one.

Run with: python3 within.py (needs numpy and arch). "exact" draws with SplitMix64 as the crate does, so that every digit must agree: quantiles are
numpy's `inverted_cdf` of all samples that a resample holds. "arch" draws with arch's StationaryBootstrap, a hundred times as many resamples:
intervals agree as far as chance allows.
"""

import json
import pathlib

import numpy
from arch.bootstrap import StationaryBootstrap

MASK = (1 << 64) - 1
RESAMPLES = 500
QUANTILES = [0.5, 0.9, 0.99]


class Draw:
    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        mixed = ((self.state ^ (self.state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        return mixed ^ (mixed >> 31)

    def uniform(self):
        return ((self.next() >> 11) + 0.5) / (1 << 53)


def ends(quantiles):
    return [
        [int(of) for of in numpy.quantile(column, [0.025, 0.975], method="inverted_cdf")]
        for column in numpy.array(quantiles).T
    ]


def of_samples(samples):
    return numpy.quantile(samples, QUANTILES, method="inverted_cdf")


def exact(slices, block, seed):
    draw = Draw(seed)
    found = []
    for _ in range(RESAMPLES):
        drawn = []
        at = 0
        for place in range(len(slices)):
            if place == 0 or draw.uniform() < 1.0 / block:
                at = draw.next() % len(slices)
            else:
                at = (at + 1) % len(slices)
            drawn.append(slices[at])
        found.append(of_samples(numpy.concatenate(drawn)))
    return ends(found)


def by_arch(slices, block):
    # A slice is one observation: what is drawn are their numbers.
    numbers = numpy.arange(len(slices))
    drawing = StationaryBootstrap(block, numbers, seed=7)
    def quantiles(drawn):
        return of_samples(numpy.concatenate([slices[at] for at in drawn]))
    return ends(drawing.apply(quantiles, 20_000))


random = numpy.random.default_rng(1994)
cases = []
for count, per_slice, block, correlation in [(60, 40, 5.0, 0.7), (120, 25, 10.0, 0.9), (100, 30, 5.0, 0.0)]:
    level = random.standard_normal()
    slices = []
    for number in range(count):
        level = correlation * level + (1 - correlation**2) ** 0.5 * random.standard_normal()
        # A slice in which nothing was counted is drawn like any other.
        samples = 0 if number % 37 == 36 else per_slice + number % 3
        slices.append(numpy.int64(1000 * numpy.exp(0.3 * level + 0.3 * random.standard_normal(samples))))
    cases.append({
        "slices": [of.tolist() for of in slices],
        "block": block,
        "seed": 42 + count,
        "exact": exact(slices, block, 42 + count),
        "arch": by_arch(slices, block),
    })
path = pathlib.Path(__file__).with_name("within.json")
path.write_text(json.dumps({"quantiles": QUANTILES, "cases": cases}) + "\n")
