"""Writes scalability.json: throughputs of numbers of clients, and the Universal Scalability Law that SciPy's curve_fit finds.

Run with: python3 scalability.py (needs NumPy and SciPy); the values are drawn from a fixed seed.
"""

import json
import pathlib

import numpy
from scipy.optimize import curve_fit
from scipy.stats import t


def law(n, alone, contention, coherence):
    return alone * n / (1 + contention * (n - 1) + coherence * n * (n - 1))


draw = numpy.random.default_rng(13)
cases = []
for alone, contention, coherence in [
    (1000, 0.05, 0.002), (995.6, 0.0267, 0.000769), (12.5, 0.2, 0.01), (80_000, 0.4, 0.02), (3e6, 0.01, 0.0005),
]:
    for counts, runs in [((1, 2, 4, 8, 16, 32), 1), ((1, 2, 3, 5, 8, 12), 3), ((1, 4, 16, 64), 2)]:
        for noise in [0.002, 0.02]:
            n = numpy.repeat(numpy.array(counts, float), runs)
            x = law(n, alone, contention, coherence) * (1 + noise * draw.standard_normal(n.size))
            start = (max(x / n), 0.05, 0.001)
            found, covariance = curve_fit(law, n, x, p0=start, xtol=1e-14, ftol=1e-14, gtol=1e-14, maxfev=100_000)
            if min(found) < 0:
                continue
            half = t.ppf(0.975, n.size - 3) * numpy.sqrt(numpy.diag(covariance))
            residual = x - law(n, *found)
            cases.append({
                "clients": n.tolist(),
                "throughput": x.tolist(),
                "found": found.tolist(),
                "half": half.tolist(),
                "r_squared": 1 - (residual**2).sum() / ((x - x.mean()) ** 2).sum(),
                "peak": float(numpy.sqrt((1 - found[1]) / found[2])),
            })
path = pathlib.Path(__file__).with_name("scalability.json")
path.write_text(json.dumps(cases) + "\n")
print(len(cases))
