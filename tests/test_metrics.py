"""Metrics: the text that Prometheus reads, and the rules and the dashboard that name them."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import mulligan.cli
from mulligan import App, FinalError, RetryPolicy, attempt
from mulligan.duties.prune import SERIES_KEPT
from mulligan.errors import BadArgument, BadSetting
from mulligan.failure.backoff import Fixed
from mulligan.projections.totals import fold_totals
from mulligan.records.counts import MOST_READ
from mulligan.records.exposition import expose
from mulligan.records.log_entry import Entry, Facts, ServiceCallFacts
from mulligan.records.metric import (
    ATTEMPT,
    BREAKER,
    BREAKER_SECONDS,
    DURATION,
    FAILED,
    METRICS,
    TOTALS,
    Metric,
    MetricType,
    Sample,
)
from mulligan.records.statistics import LAST_ATTEMPT
from mulligan.settings import load
from mulligan.store.depths import MOST_COUNTED

MONITORING = Path(str(mulligan.cli.__file__)).parent / "monitoring"
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text("utf-8"))
RULES = yaml.safe_load((MONITORING / "rules.yml").read_text("utf-8"))["groups"][0]["rules"]
SERIES = re.compile(r"^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:{.*})? (?P<value>\S+)$")


def promtool(*arguments: str, given: str = "", folder: Path | None = None) -> str:
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed: sudo apt-get install prometheus")
    done = subprocess.run([tool, *arguments], input=given, text=True, capture_output=True, cwd=folder, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def busy(app: App) -> App:
    """An app whose jobs have ended in several ways."""

    @app.task(retry=RetryPolicy(2, backoff=Fixed("0s")), service='gate"way\\')
    def convert(number: int) -> None:
        attempt().called('gate"way\\', status=200, seconds=0.2)
        if number == 1:
            raise FinalError("no", code="NOPE")
        if number == 2:
            raise OSError("off")

    for number in range(3):
        convert.enqueue(number)
    failed = [job for job in (app.run_until_idle(retries=True), app.jobs())[1].jobs if job.error_code == "NOPE"]
    app.retry(failed[0].id, actor="ann")
    convert.options(delay="1h").enqueue(0)
    app.run_duty("project")
    return app


def values(text: str) -> dict[str, float]:
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}


def test_any_process_shows_the_whole(busy: App) -> None:
    with App(busy.settings.database_url) as other:
        found = values(other.metrics())
    assert found['mulligan_jobs_created_total{kind="convert"}'] == 4
    assert found['mulligan_jobs_completed_total{kind="convert"}'] == 1
    assert found['mulligan_jobs_failed_total{error_code="NOPE",kind="convert"}'] == 1
    assert found['mulligan_jobs_failed_total{error_code="UNKNOWN",kind="convert"}'] == 1
    assert found['mulligan_jobs_non_retryable_total{error_code="NOPE"}'] == 1
    assert found['mulligan_jobs_retried_total{type="automatic"}'] == 1
    assert found["mulligan_manual_retry_total"] == 1
    assert found['mulligan_retry_outcomes_total{attempt="2",outcome="failed"}'] == 1
    assert found['mulligan_job_processing_duration_seconds_count{kind="convert"}'] == 4
    assert found['mulligan_service_latency_seconds_count{service="gate\\"way\\\\",outcome="ok"}'] == 4
    assert (found['mulligan_queue_depth{set="main"}'], found['mulligan_queue_depth{set="delayed"}']) == (1, 1)
    assert found["mulligan_jobs_active"] == 0


def test_an_application_serves_them_under_its_own_names(busy: App) -> None:
    found = values(busy.metrics(prefix=""))
    names = {name.partition("{")[0] for name in found}
    assert {
        *("jobs_failed_total", "job_processing_duration_seconds_bucket", "queue_depth", "jobs_active"),
        "manual_retry_total",
    } <= names
    assert not any(name.startswith("mulligan") for name in names)
    with pytest.raises(BadArgument, match="not beginning with a digit"):
        busy.metrics(prefix="1_")


def test_the_prefix_is_a_setting() -> None:
    def prefix(text: str) -> str:
        return load(environment={"MULLIGAN_METRICS_PREFIX": text}).metrics_prefix

    assert (prefix("shop_"), prefix("none"), prefix("")) == ("shop_", "", "mulligan_")
    with pytest.raises(BadSetting, match="letters, digits"):
        prefix("a-b")


def test_the_buckets_of_a_histogram_add_up(busy: App) -> None:
    for metric in busy.read_metrics():
        for sample in metric.samples if metric.type is MetricType.HISTOGRAM else ():
            assert sample.buckets is not None and metric.bounds is not None
            assert list(sample.buckets) == sorted(sample.buckets)
            assert (sample.buckets[-1], len(sample.buckets)) == (sample.value, len(metric.bounds) + 1)


def test_label_values_and_help_are_escaped() -> None:
    sample = Sample(labels={"kind": 'a"b\\c\nd'}, value=1.5)
    text = expose([Metric(name="size", type=MetricType.GAUGE, about="one\\\ntwo", samples=(sample,))], "x_")
    assert text == '# HELP x_size one\\\\\\ntwo\n# TYPE x_size gauge\nx_size{kind="a\\"b\\\\c\\nd"} 1.5\n'
    promtool("check", "metrics", given=text)


def test_promtool_finds_nothing_to_complain_of(busy: App) -> None:
    assert promtool("check", "metrics", given=busy.metrics()) == ""
    assert promtool("check", "metrics", given=busy.metrics(prefix="")) == ""


def test_the_rules_are_valid(tmp_path: Path) -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", str(MONITORING / "rules.yml"))


def _case(alert: str, minutes: int, series: dict[str, str], labels: dict[str, str]) -> dict[str, Any]:
    """The alert fires after so many minutes, and has not fired before the series began."""
    severity = next(rule["labels"]["severity"] for rule in RULES if rule["alert"] == alert)
    return {
        "interval": "1m",
        "input_series": [{"series": f"mulligan_{name}", "values": given} for name, given in series.items()],
        "alert_rule_test": [
            {"eval_time": "0m", "alertname": alert, "exp_alerts": []},
            {
                "eval_time": f"{minutes}m",
                "alertname": alert,
                "exp_alerts": [{"exp_labels": {"severity": severity, **labels}}],
            },
        ],
    }


TWO = ('{instance="a"}', '{instance="b"}')
FIRED = {
    "MulliganMetricsMissing": (6, {"jobs_active": "0x10"}, {}),
    "MulliganNoWorkers": (7, {'queue_depth{set="main"}': "5x20", "workers_alive": "1 0x20"}, {}),
    "MulliganQueueStandsStill": (12, {'queue_depth{set="main"}': "5x20", "jobs_active": "0x20"}, {}),
    "MulliganQueueDepth": (17, {'queue_depth{set="main"}': "0 20000x20"}, {}),
    "MulliganQueueWait": (
        30,
        {f'job_wait_seconds_bucket{{kind="a",le="{le}"}}': step for le, step in (("300", "0x40"), ("900", "0+9x40"))}
        | {'job_wait_seconds_bucket{kind="a",le="+Inf"}': "0+9x40"},
        {},
    ),
    "MulliganFailureRate": (
        25,
        {f'jobs_failed_total{{error_code="X",kind="a",{each[1:]}': "0+3x40" for each in TWO}
        | {'jobs_completed_total{kind="a"}': "0+3x40"},
        {"kind": "a"},
    ),
    "MulliganErrorCodeSpike": (15, {'jobs_failed_total{error_code="X",kind="a"}': "0 0 0 0+9x40"}, {"error_code": "X"}),
    "MulliganRetriesInVain": (45, {'retry_outcomes_total{attempt="2",outcome="failed"}': "0+3x60"}, {}),
    "MulliganBreakerOpen": (17, {'breaker_open{service="s"}': "1x20"}, {"service": "s"}),
    "MulliganServiceSlow": (
        40,
        {
            'service_latency_seconds_bucket{service="s",outcome="ok",le="30"}': "0x60",
            'service_latency_seconds_bucket{service="s",outcome="ok",le="60"}': "0+9x60",
            'service_latency_seconds_bucket{service="s",outcome="ok",le="+Inf"}': "0+9x60",
        },
        {"service": "s"},
    ),
    "MulliganAttemptsRecovered": (14, {'stuck_recovered_total{cause="stuck"}': "0+2x20"}, {"cause": "stuck"}),
    "MulliganDutyLate": (
        20,
        {'duty_last_run_timestamp_seconds{duty="reclaim"}': "0x30", "workers_alive": "2x30"},
        {"duty": "reclaim"},
    ),
    "MulliganMetricsBehind": (8, {"projection_lag_seconds": "0 1000x20"}, {}),
}


def test_every_rule_fires(tmp_path: Path) -> None:
    assert FIRED.keys() == {rule["alert"] for rule in RULES}
    # What people read is not part of the comparison.
    plain = [{key: value for key, value in rule.items() if key != "annotations"} for rule in RULES]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "mulligan", "rules": plain}]}))
    cases = [_case(alert, *given) for alert, given in FIRED.items()]
    tested = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": cases}
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(tested))
    assert "SUCCESS" in promtool("test", "rules", "tests.yml", folder=tmp_path)


def known_series() -> set[str]:
    parts = {MetricType.HISTOGRAM: ("_bucket", "_sum", "_count")}
    return {f"mulligan_{metric.name}{part}" for metric in METRICS for part in parts.get(metric.type, ("",))}


@pytest.mark.parametrize("name", ["rules.yml", "dashboard.json"])
def test_every_metric_that_a_file_names_exists(name: str) -> None:
    named = set(re.findall(r"\bmulligan_\w+", (MONITORING / name).read_text("utf-8")))
    assert named and named <= known_series()


def test_the_dashboard_shows_every_metric_and_has_valid_queries(tmp_path: Path) -> None:
    queries = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    shown = {re.sub("_(bucket|count)$", "", name) for name in re.findall(r"\bmulligan_(\w+)", " ".join(queries))}
    assert shown == {metric.name for metric in METRICS}
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    records = [
        {"record": f"query:{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate(queries)
    ]
    (tmp_path / "queries.yml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": records}]}))
    promtool("check", "rules", "--lint=none", "queries.yml", folder=tmp_path)


def test_the_guide_explains_every_alert() -> None:
    guide = (Path(__file__).parents[1] / "docs" / "guides" / "prometheus.md").read_text("utf-8")
    assert re.findall(r"^\| `(Mulligan\w+)` \|", guide, re.MULTILINE) == [rule["alert"] for rule in RULES]


def test_names_are_as_prometheus_wants_them() -> None:
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.type is MetricType.COUNTER)
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert ATTEMPT.values[-1] == str(LAST_ATTEMPT)


def test_every_total_can_be_counted() -> None:
    """A total that no event adds to would stay at zero for ever."""
    calls = [ServiceCallFacts("s", ok=True, seconds=-1.0)]
    facts = Facts(seconds=1.0, error_class="final", worker="w", by="ann", calls=calls)
    types = ("enqueued", "started", "succeeded", "retried", "failed", "cancelled", "retry_requested", "released")
    log = [Entry(n, f"job.{each}", "j", "k", "", 2, 10, "C", "s", 0, 5, None, facts) for n, each in enumerate(types)]
    found = fold_totals(log)
    assert {key.name for key in found} | {"breaker_open_seconds_total"} == {metric.name for metric in TOTALS}
    assert all(tally.seconds >= 0 for tally in found.values()), "a negative time would let a sum fall"


def test_the_bounds_are_documented() -> None:
    page = " ".join((Path(__file__).parents[1] / "docs" / "reference" / "metrics.md").read_text("utf-8").split())
    most = {metric.most for metric in TOTALS if metric.type is MetricType.COUNTER}
    assert most == {100, 200, 500} and {metric.most for metric in TOTALS} == most
    assert (FAILED.most, BREAKER_SECONDS.most, DURATION.most, BREAKER.most) == (500, 100, 100, 200)
    assert "at most 200 series, `jobs_failed_total` 500, `breaker_open_seconds_total` and each histogram 100" in page
    assert f"has not changed for {SERIES_KEPT.days} days" in page
    assert f"exact up to {MOST_READ:,} jobs" in page and f"up to {MOST_COUNTED:,}" in page
