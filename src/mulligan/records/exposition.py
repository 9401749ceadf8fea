"""The text format of Prometheus, version 0.0.4."""

import re
from collections.abc import Iterable, Iterator, Mapping

from mulligan.records.metric import Metric, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# What names of metrics may begin with; nothing is possible too.
_PREFIX = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]{0,99})?")
PREFIX_ALLOWED = "letters, digits, '_' and ':', such as 'jobs_', not beginning with a digit"


def is_prefix(value: object) -> bool:
    return isinstance(value, str) and _PREFIX.fullmatch(value) is not None


def expose(metrics: Iterable[Metric], prefix: str) -> str:
    return "".join(f"{line}\n" for metric in metrics for line in _lines(metric, prefix + metric.name))


def _lines(metric: Metric, name: str) -> Iterator[str]:
    yield f"# HELP {name} {_escape(metric.about)}"
    yield f"# TYPE {name} {metric.type}"
    for sample in metric.samples:
        if metric.bounds is None:
            yield f"{name}{_labels(sample.labels)} {_number(sample.value)}"
        else:
            yield from _histogram(name, sample, metric.bounds)


def _histogram(name: str, sample: Sample, bounds: tuple[float, ...]) -> Iterator[str]:
    shown = _pairs(sample.labels)
    begin = f"{name}_bucket{{{shown}," if shown else f"{name}_bucket{{"
    for bound, number in zip((*map(_number, bounds), "+Inf"), sample.buckets or (), strict=True):
        yield f'{begin}le="{bound}"}} {number}'
    yield f"{name}_sum{_labels(sample.labels)} {_number(sample.sum or 0.0)}"
    yield f"{name}_count{_labels(sample.labels)} {_number(sample.value)}"


def _labels(labels: Mapping[str, str]) -> str:
    return f"{{{_pairs(labels)}}}" if labels else ""


def _pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escape_value(value)}"' for name, value in labels.items())


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _escape_value(text: str) -> str:
    return _escape(text).replace('"', r"\"")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
