"""Writes changes.json: series, and the changes that MongoDB's E-divisive finds.

Run with: python3 changes.py (needs NumPy 1.x and signal-processing-algorithms 2.1); the values are drawn from a fixed seed.
"""

import json
import pathlib

import numpy
from signal_processing_algorithms.energy_statistics import energy_statistics

draw = numpy.random.default_rng(7)
numpy.random.seed(7)
cases = []
for levels in [
    [(100, 20)],
    [(100, 10), (110, 10)],
    [(100, 15), (104, 8), (98, 12)],
    [(5e5, 30), (4e5, 30), (5e5, 5)],
    [(0.001, 6), (0.0012, 6)],
]:
    for noise in [0.005, 0.02]:
        values = numpy.concatenate([
            level * (1 + noise * draw.standard_normal(count)) for level, count in levels
        ])
        found = energy_statistics.e_divisive(values, pvalue=0.01, permutations=999)
        cases.append({
            "values": values.tolist(),
            "changes": sorted(int(it) for it in found),
        })
path = pathlib.Path(__file__).with_name("changes.json")
path.write_text(json.dumps(cases) + "\n")
