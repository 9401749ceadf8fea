"""`mulligan metrics` and `mulligan doctor --quick`: as text and as JSON."""

import json
from collections.abc import Callable
from typing import Any

import yaml
from click.testing import Result

from mulligan import App

Invoke = Callable[..., Result]
ReadJson = Callable[[Result], Any]
HERE = ("--database", "sqlite:///jobs.db")


def test_metrics_are_printed_for_prometheus_and_as_json(invoke: Invoke, read_json: ReadJson, works: App) -> None:
    works.migrate()
    assert invoke("metrics", *HERE).stdout == works.metrics()
    assert "\njobs_active 0\n" in invoke("metrics", "--prefix", "", *HERE).stdout
    assert invoke("metrics", "--prefix", "a-b", *HERE).exit_code == 2
    found = {metric["name"]: metric for metric in read_json(invoke("metrics", "--json", *HERE))["metrics"]}
    assert found["jobs_active"]["samples"] == [{"labels": {}, "value": 0, "sum": None, "buckets": None}]


def test_rules_and_dashboard_are_printed_with_the_prefix_and_without_a_database(invoke: Invoke) -> None:
    rules = yaml.safe_load(invoke("metrics", "rules", "--prefix", "").stdout)["groups"][0]["rules"]
    assert rules[0]["expr"] == "absent(workers_alive)"
    assert json.loads(invoke("metrics", "dashboard").stdout)["title"] == "mulligan"
    assert '"expr": "max(shop_jobs_active)"' in invoke("metrics", "dashboard", "--prefix", "shop_").stdout
    assert invoke("metrics", "rules", "--prefix", "1").exit_code == 2


def test_the_quick_doctor_shows_components(invoke: Invoke, read_json: ReadJson, works: App) -> None:
    works.migrate()
    shown = invoke("doctor", "--quick", *HERE)
    assert shown.exit_code == 0
    assert "ok       store: the store answers\n" in shown.stdout
    assert "warning  workers: no worker is alive\n" in shown.stdout
    found = read_json(invoke("doctor", "--quick", "--json", *HERE))
    assert (found["components"][0]["name"], found["problems"], found["warnings"]) == ("store", 0, 1)
