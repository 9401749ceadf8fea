"""The text format of Prometheus, version 0.0.4."""

import re
from collections.abc import Iterable, Mapping, Sequence

from mulligan.errors import BadArgument
from mulligan.records.metric import Metric, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# What names of metrics may begin with; nothing is possible too.
_PREFIX = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]{0,99})?")
PREFIX_ALLOWED = "letters, digits, '_' and ':', such as 'jobs_', not beginning with a digit"


def is_prefix(value: object) -> bool:
    return isinstance(value, str) and _PREFIX.fullmatch(value) is not None


def check_prefix(value: str) -> str:
    if not is_prefix(value):
        raise BadArgument("prefix", value, PREFIX_ALLOWED)
    return value


def expose(metrics: Iterable[Metric], prefix: str) -> str:
    lines: list[str] = []
    for metric in metrics:
        _add_lines(lines, metric, prefix + metric.name)
    return "\n".join([*lines, ""])


def _add_lines(lines: list[str], metric: Metric, name: str) -> None:
    lines += (f"# HELP {name} {_escape(metric.about)}", f"# TYPE {name} {metric.type}")
    if metric.bounds is None:
        lines += [f"{name}{_labels(sample.labels)} {_number(sample.value)}" for sample in metric.samples]
        return
    ends = [f'le="{bound}"}} ' for bound in (*map(_number, metric.bounds), "+Inf")]
    for sample in metric.samples:
        _add_histogram(lines, sample, name, ends)


def _add_histogram(lines: list[str], sample: Sample, name: str, ends: Sequence[str]) -> None:
    shown = _labels(sample.labels)
    begin = f"{name}_bucket{shown[:-1]}," if shown else f"{name}_bucket{{"
    lines += [f"{begin}{end}{number}" for end, number in zip(ends, sample.buckets or (), strict=True)]
    lines += (f"{name}_sum{shown} {_number(sample.sum or 0.0)}", f"{name}_count{shown} {_number(sample.value)}")


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join([f'{name}="{_escape_value(value)}"' for name, value in labels.items()]) + "}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _escape_value(text: str) -> str:
    return _escape(text).replace('"', r"\"")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
