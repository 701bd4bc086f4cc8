"""Writes reference.json beside it: spreads of random values as SciPy computes them.

Run with: python3 reference.py (needs SciPy); the values are drawn from a fixed seed.
"""

import json
import pathlib

import numpy
from scipy import stats

draw = numpy.random.default_rng(20)
cases = []
for count in [2, 3, 4, 5, 8, 12, 30, 100]:
    for scale, spread in [(1e-3, 0.3), (1.0, 0.01), (5e5, 0.02), (1e12, 1.0)]:
        values = scale * (1 + spread * draw.standard_normal(count))
        low, high = stats.t.interval(0.95, count - 1, values.mean(), stats.sem(values))
        cases.append({
            "values": values.tolist(),
            "mean": values.mean(),
            "sd": values.std(ddof=1),
            "interval": [low, high],
        })
path = pathlib.Path(__file__).with_name("reference.json")
path.write_text(json.dumps(cases) + "\n")
