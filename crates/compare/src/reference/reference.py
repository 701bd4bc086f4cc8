"""Writes reference.json and differences.json beside it: spreads of random values, and differences between them,
as SciPy computes them, and corrected probabilities as statsmodels does.

Run with: python3 reference.py (needs SciPy and statsmodels); the values are drawn from a fixed seed.
"""

import json
import pathlib

import numpy
from scipy import stats
from statsmodels.stats.multitest import multipletests

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

sides = []
for a_count, b_count in [(2, 2), (3, 5), (6, 6), (8, 8), (12, 9), (20, 20)]:
    for shift in [0.0, 0.01, 0.05]:
        a = 0.02 * draw.standard_normal(a_count)
        b = shift + 0.03 * draw.standard_normal(b_count)
        case = {"a": a.tolist(), "b": b.tolist()}
        welch = stats.ttest_ind(b, a, equal_var=False)
        case["unpaired"] = {
            "p": welch.pvalue,
            "freedom": welch.df,
            "interval": list(welch.confidence_interval(0.95)),
        }
        if a_count == b_count:
            paired = stats.ttest_rel(b, a)
            case["paired"] = {
                "p": paired.pvalue,
                "interval": list(paired.confidence_interval(0.90)),
            }
            if a_count <= 12:
                flipped = stats.permutation_test(
                    (b - a,), numpy.sum, permutation_type="samples", n_resamples=numpy.inf
                )
                case["sign_flip"] = flipped.pvalue
        sides.append(case)
corrected = []
for count in [1, 2, 5, 30]:
    p = draw.uniform(size=count) ** 3
    corrected.append({
        "p": p.tolist(),
        "holm": multipletests(p, method="holm")[1].tolist(),
        "benjamini_hochberg": multipletests(p, method="fdr_bh")[1].tolist(),
    })
path = pathlib.Path(__file__).with_name("differences.json")
path.write_text(json.dumps({"sides": sides, "corrected": corrected}) + "\n")
