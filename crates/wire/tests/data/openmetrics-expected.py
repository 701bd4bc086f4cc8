"""Makes the .expected files beside this from the .txt pages: pip install prometheus_client==0.26.0, then run it here."""
import math
import struct

from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser


def lines(families, text):
    for family in families:
        for sample in family.samples:
            labels = ",".join(
                f"{name}={value.encode().hex()}" for name, value in sorted(sample.labels.items())
            )
            value = math.nan if math.isnan(sample.value) else float(sample.value)
            name = sample.name
            if f"\n{name}" not in text:
                # It gives counters of the older format the suffix that OpenMetrics wants.
                name = name.removesuffix("_total")
            yield f"{name} {labels} {struct.pack('>d', value).hex()}\n"


for page, read in [
    ("openmetrics-rabbitmq", parser.text_string_to_metric_families),
    ("openmetrics-prometheus", parser.text_string_to_metric_families),
    ("openmetrics-openmetrics", openmetrics_parser.text_string_to_metric_families),
]:
    with open(f"{page}.txt", encoding="utf-8", newline="") as file:
        text = file.read()
    with open(f"{page}.expected", "w", encoding="utf-8") as file:
        file.writelines(sorted(lines(read(text), text)))
