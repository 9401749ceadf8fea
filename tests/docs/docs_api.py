"""The API reference, written from the code: `make docs` writes its pages anew.

Everything is reached through `import mulligan`, so that moving a module changes no page.
"""

import enum
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, get_overloads

import docs_source as source
from docs_remedies import REMEDIES
from docs_source import Member, Parameter, duration

import mulligan
from mulligan import App, Batch, Egress, JobFilter, RetryPolicy, State, testing

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
WRITTEN = "<!-- Written by tests/docs/docs_api.py from the code: change the docstrings, then run `make docs`. -->"

# Verbs that no heading names come under "More".
VERBS = {
    "Register tasks": "task cron around redact",
    "Enqueue and wait": "enqueue_many enqueue_many_async batch wait wait_async",
    "Run a worker": "run worker run_until_idle asgi",
    "Look at jobs": "job jobs find_id counts last_failures queue_position blocked_by explain stuck export",
    "Events": "events history last_position stream",
    "Change jobs": "retry run_now snooze cancel process_stuck reclassify purge release_key expire_result forget_owner",
    "Redrives": "redrive redrives redrive_status cancel_redrive",
    "Batches": "find_batch batches publish_batch retry_batch cancel_batch",
    "Services, pauses and limits": "services service pause resume pauses limits default_owner_limit spending",
    "Policies": "policies_in_force",
    "Schedules and duties": "schedules run_schedule remove_schedule duties run_duty workers",
    "Notifications": "subscribe subscriptions subscription unsubscribe disable_subscription enable_subscription "
    "rotate_secret test_subscription deliveries delivery redeliver create_hook incoming_hooks remove_hook receive_hook",
    "Access to the HTTP API": "create_key keys revoke_key find_key audit",
    "The database": "migrate check_store has_database doctor close",
}
# Public by name, but of use only to the package itself.
INTERNAL = {
    *("names", "limits_in_force", "settings", "store", "tick"),
    *("Backoff", "Course", "AppParts", "Settings", "Store", "Worker"),
}
ATTEMPT = (
    *("job", "number", "cancelled", "lost", "resources", "fields", "progress", "fence", "fence_async"),
    *("run", "run_async", "called", "idempotency_key", "in_thread"),
)

BACKOFFS = (
    mulligan.Fixed("30s"),
    mulligan.Steps(["1m", "5m", "15m"]),
    mulligan.Linear("30s", cap="90s", jitter=None),
    mulligan.Exponential("15s", jitter=None),
    mulligan.Exponential("15s", factor=3, cap="5m", jitter=None),
)
JITTERS = (None, 0.2, mulligan.Full(), mulligan.Decorrelated(), mulligan.Added("5s"))
HIGHEST_DRAW = 1 - 2**-53


def _example() -> None: ...


class Kinds:
    """Public classes that `mulligan` exports no name for."""

    app = App("sqlite:///:memory:")
    task = app.task(_example)
    Task = type(task)
    Submission = type(task.options())
    Binding = type(task.bind())
    Attempt = type(mulligan.attempt())
    ServiceHandle = source.resolve(App.service, source.returned(App.service))


# Parts of a page


def table(heading: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [list(heading), ["---"] * len(list(heading)), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def code(text: str) -> str:
    return f"```py\n{text}\n```"


def quoted(text: str) -> str:
    return f"`{text}`" if text else ""


def one_line(text: str) -> str:
    return " ".join(text.split())


def prose(text: str) -> str:
    """A docstring as Markdown. Its examples are shown, and run by the tests of the code, not by those of the docs."""
    return re.sub(r"^```python$", "```py", text, flags=re.MULTILINE)


def described(text: str, given: list[Parameter]) -> str:
    """A docstring; the lines in it that explain parameters become a table with types and defaults."""
    names = {parameter.name: parameter for parameter in given}
    before, rows, after = [], [], []
    for line in text.splitlines():
        # Between rows one space is enough: the longest name has no more.
        found = re.match(rf"`?(\w+)`? {{{1 if rows and not after else 2},}}(\S.*)", line)
        if found and found[1] in names and not after:
            rows.append([found[1], found[2]])
        elif rows and line.startswith("  ") and not after:
            rows[-1][1] += " " + line.strip()
        else:
            (after if rows else before).append(line)
    return "\n\n".join(part for part in (_joined(before), _options(rows, names), _joined(after)) if part)


def _joined(lines: list[str]) -> str:
    return prose("\n".join(lines).strip())


def _options(rows: list[list[str]], names: dict[str, Parameter]) -> str:
    if not rows:
        return ""
    lines = ([quoted(name), quoted(names[name].type), quoted(names[name].default or ""), text] for name, text in rows)
    return table(("option", "type", "default", "meaning"), lines)


def call(shown: str, function: Callable[..., Any], *, level: int = 3, text: str | None = None) -> str:
    given = source.parameters(function)
    line = source.signature(shown, given, source.returned(function))
    words = described(source.doc(function) if text is None else text, given)
    title = shown.removeprefix("await ").removeprefix("@")
    return _section(level, f"`{title}`", code(line), words)


def _section(level: int, title: str, *parts: str) -> str:
    return "\n\n".join([f"{'#' * level} {title}", *(part for part in parts if part)])


def constructed(kind: type, *, level: int = 3) -> str:
    """A class that people construct: its signature with every default, and its words."""
    given = source.parameters(kind.__init__) if source.is_written(kind.__init__) else source.fields(kind)
    words = described(source.doc(kind), given)
    return _section(level, f"`{kind.__name__}`", code(source.signature(kind.__name__, given)), words)


def record(kind: type, *, level: int = 3) -> str:
    """A value that calls return."""
    if issubclass(kind, enum.Enum):
        values = ", ".join(quoted(str(one)) for one in kind)
        return _section(level, f"`{kind.__name__}`", prose(source.doc(kind)), values)
    lines = [f"class {kind.__name__}:", *(line for one in source.members(kind) for line in _field(one))]
    return _section(level, f"`{kind.__name__}`", prose(source.doc(kind)), code("\n".join(lines)))


def _field(member: Member) -> list[str]:
    line = f"    {member.name}: {member.type}"
    words = f"# {one_line(member.meaning)}" if member.meaning else ""
    if len(line) + len(words) <= source.WIDTH:
        return [f"{line}  {words}".rstrip()]
    return [*textwrap.wrap(words, source.WIDTH, initial_indent="    ", subsequent_indent="    # "), line]


# What is computed


def default_policy() -> RetryPolicy:
    """Of a task that gives none."""
    return Kinds.task.retry


def lifetime(policy: RetryPolicy) -> str:
    lows, mids, highs = (_delays(policy, draw) for draw in (0.0, 0.5, HIGHEST_DRAW))
    rows, passed = [], timedelta(0)
    for attempt, (low, middle, high) in enumerate(zip(lows, mids, highs, strict=True), start=2):
        passed += middle
        rows.append((f"attempt {attempt}", duration(middle), f"{duration(low)} to {duration(high)}", duration(passed)))
    shown = table(("before", "wait", "with jitter", "waited in all"), rows)
    least, most = duration(sum(lows, timedelta(0))), duration(sum(highs, timedelta(0)))
    first = (
        f"A task without `retry=` has the policy `{source.value(policy)}`: {policy.max_attempts} attempts in all, so "
        f"{policy.max_attempts - 1} retries."
    )
    last = (
        f"The waits of a job that fails every time add up to {duration(passed)} on average, {least} at least and "
        f"{most} at most. Each attempt runs for at most the task's `timeout`, which is "
        f"{duration(Kinds.task.timeout)} unless you set it. After the last attempt the job is `failed`.\n\n"
        "`at_most_once=True` without `retry=` allows one attempt. `MULLIGAN_RETRY_*` ([settings](settings.md)) and the "
        "[policies file](policies.md) replace the default policy without a change of the code. "
        "`mulligan policies schedule TASK` prints this table for any task."
    )
    return f"{first}\n\n{shown}\n\n{last}"


def _delays(policy: RetryPolicy, draw: float) -> list[timedelta]:
    delays: list[timedelta] = []
    for failures in range(1, policy.max_attempts):
        delays.append(policy.backoff(failures, delays[-1] if delays else None, draw))
    return delays


def backoffs() -> str:
    rows = (
        (quoted(source.value(one)), ", ".join(duration(one(n, None, 0.5)) for n in range(1, 7))) for one in BACKOFFS
    )
    return table(("backoff", "delays before the next six attempts"), rows)


def jitters() -> str:
    rows = []
    for jitter in JITTERS:
        delays = [mulligan.Exponential("60s", jitter=jitter)(1, None, draw) for draw in (0.0, HIGHEST_DRAW)]
        rows.append((quoted(f"jitter={source.value(jitter)}"), " to ".join(dict.fromkeys(map(duration, delays)))))
    return table(("jitter", 'first delay of `Exponential("60s")`'), rows)


# Pages


def api() -> Iterator[str]:
    yield "# API"
    yield WRITTEN
    yield (
        "Every public name, with its signature, its defaults and its docstring. The other pages: "
        "[policies, rules and services](api-policies.md), [records](api-records.md), [errors](api-errors.md).\n\n"
        'Durations are `timedelta`, numbers of seconds, or strings such as `"90s"`, `"5m"`, `"1h30m"`. '
        "Other type names are explained [at the end](#types)."
    )
    yield _section(2, "Names", index())
    yield _section(2, "The app", constructed_app())
    listed = VERBS | {"More": " ".join(_unlisted())}
    for title, names in listed.items():
        yield from _verbs(title, names.split())
    yield _section(2, "Tasks", *tasks())
    yield _section(2, "Inside a task", *inside())
    yield _section(2, "In tests", "`from mulligan.testing import sandbox, flaky, crashing, hanging`", *in_tests())
    yield _section(2, "Types", aliases())


def constructed_app() -> str:
    given = source.parameters(App.__init__)
    words = described(source.doc(App), given)
    return _section(3, "`App`", code(source.signature("App", given)), words)


def _unlisted() -> list[str]:
    named = {name for names in VERBS.values() for name in names.split()} | INTERNAL
    return [name for name in source.public(App) if name not in named]


def _verbs(title: str, names: list[str]) -> Iterator[str]:
    public = source.public(App)
    found = {name: public[name] for name in names if name in public}
    if found:
        yield _section(2, title, *(_verb(name, each) for name, each in found.items()))


def _verb(name: str, verb: Any) -> str:
    if isinstance(verb, property):
        return _section(3, f"`app.{name}`", prose(source.doc(verb.fget)))
    if name == "task":
        # The overload of `@app.task(…)` has truer types than the code that serves all of them.
        return call("@app.task", [App.task, *get_overloads(App.task)][-1], text=source.doc(App.task))
    shown = f"@app.{name}" if name in ("task", "cron", "around") else f"app.{name}"
    return call(f"await {shown}" if source.is_async(verb) and name != "worker" else shown, verb)


def tasks() -> Iterator[str]:
    yield prose(source.doc(Kinds.Task))
    yield call("task.enqueue", Kinds.Task.enqueue)
    yield call("await task.enqueue_async", Kinds.Task.enqueue_async)
    yield call("task.bind", Kinds.Task.bind)
    yield call("task.options", Kinds.Task.options)
    yield "How to use each option: [the guide](../guides/options.md)."


def inside() -> Iterator[str]:
    yield call("attempt", mulligan.attempt)
    rows = ((quoted(name), one_line(text)) for name, text in _attempt_values())
    yield _section(3, "`Attempt`", prose(source.doc(Kinds.Attempt)), table(("attribute", "meaning"), rows))
    for name, verb in source.verbs(Kinds.Attempt).items():
        if name in ATTEMPT:
            yield call(f"{'await ' if source.is_async(verb) else ''}attempt().{name}", verb, level=4)
    yield _section(
        3, "Raised by a task", "These tell the engine what a failure is: see [errors](api-errors.md#raised-by-a-task)."
    )


def _attempt_values() -> Iterator[tuple[str, str]]:
    texts = source.texts(Kinds.Attempt)
    yield from ((name, texts[name]) for name in ATTEMPT if name in texts)


def in_tests() -> Iterator[str]:
    yield call("sandbox", testing.sandbox)
    box = source.verbs(testing.Sandbox)
    yield from (call(f"box.{name}", box[name], level=4) for name in box if source.doc(box[name]))
    yield from (call(name, getattr(testing, name)) for name in ("flaky", "crashing", "hanging"))


def index() -> str:
    homes: dict[str, list[str]] = {}
    for name in mulligan.__all__:
        homes.setdefault(_home(name), []).append(f"[`{name}`]({_home(name)}#{_anchor(name)})")
    titles = {
        "": "this page",
        "api-policies.md": "policies, rules and services",
        "api-records.md": "records",
        "api-errors.md": "errors",
    }
    return "\n".join(f"- {titles[home]}: {', '.join(homes[home])}" for home in titles)


def _anchor(name: str) -> str:
    return "every-error" if _is_error(name) and name not in RAISED else name.lower()


def _home(name: str) -> str:
    if name in ("App", "attempt"):
        return ""
    if _is_error(name):
        return "api-errors.md"
    return "api-policies.md" if name in POLICIES else "api-records.md"


def _is_error(name: str) -> bool:
    thing = getattr(mulligan, name)
    return isinstance(thing, type) and issubclass(thing, Exception)


def aliases() -> str:
    found: dict[str, str] = {}
    functions = [*source.verbs(App).values(), App.__init__, *source.verbs(Kinds.Task).values()]
    functions += [
        getattr(mulligan, name).__init__ for name in POLICIES if source.is_written(getattr(mulligan, name).__init__)
    ]
    for function in functions:
        module = sys.modules[inspect.unwrap(function).__module__]
        for parameter in source.parameters(function):
            for name in source.named(parameter.type):
                written = None if isinstance(vars(module).get(name), type) else source.alias(module, name)
                if written and not written.startswith(("TypeVar", "ParamSpec")):
                    found[name] = written
    rows = [(quoted(name), quoted(found[name])) for name in sorted(found)]
    return table(("name", "stands for"), [*rows, ("`R`", "what the task's function returns")])


MAILS = "Notice Bulletin Content Entry Tone"
POLICIES = (
    *("RetryPolicy", "Fixed", "Steps", "Linear", "Exponential", "Full", "Decorrelated", "Added", "Window"),
    *MAILS.split(),
    *("Rule", "ErrorCode", "Failure", "Verdict", "Service", "Queue", "Owner", "Subscription", "Alert", "Egress"),
)


def policies() -> Iterator[str]:
    yield "# API: policies, rules and services"
    yield WRITTEN
    yield (
        "All of these are imported from `mulligan`. Values are checked when they are made: a bad one raises "
        "`BadPolicy`, which says what is allowed. [All pages](api.md)."
    )
    yield _section(2, "The default policy", lifetime(default_policy()))
    yield _section(2, "Retry policies", _all("RetryPolicy"))
    backoff = (
        "A backoff is any callable `(failures, previous_delay, draw) -> timedelta`. These are built in. No delay is "
        "longer than 30 days."
    )
    yield _section(2, "Backoffs", backoff, backoffs(), _all("Fixed Steps Linear Exponential"))
    jitter = "`jitter=` of a backoff is a ratio (±), one of these values, or None. A `cap` is applied after jitter."
    yield _section(2, "Jitter", jitter, jitters(), _all("Full Decorrelated Added"))
    yield _section(2, "Time windows", _all("Window"))
    rules = "[How failures are classified](rules.md); [all codes](catalogue.md)."
    yield _section(2, "Rules and error codes", rules, _all("Rule ErrorCode Failure Verdict"))
    yield _section(2, "Services", "[Services in an outage](../guides/outages.md).", _all("Service"))
    owners = "[Fair queues](../guides/fairness.md); [limits](../guides/limits.md)."
    yield _section(2, "Queues and owners", owners, _all("Queue Owner"))
    yield _section(2, "Subscriptions", "[Notifications](../guides/notifications.md).", _all("Subscription"))
    mails = "What the functions of a subscription get, and what a `template=` returns."
    yield _section(2, "Mails of your own", mails, *(record(getattr(mulligan, name)) for name in MAILS.split()))
    yield _section(2, "Alerts", "[Alerts](../guides/alerts.md).", _all("Alert"))
    verbs = [call(f"egress.{verb.__name__}", verb, level=4) for verb in (Egress.check, Egress.look_up, Egress.open)]
    yield _section(2, "URLs of users", "[URLs of users](../guides/urls-of-users.md).", _all("Egress"), *verbs)


def _all(names: str) -> str:
    return "\n\n".join(constructed(getattr(mulligan, name)) for name in names.split())


def records() -> Iterator[str]:
    yield "# API: records"
    yield WRITTEN
    yield "What calls return: frozen values, true at the moment they were read. [All pages](api.md)."
    yield _section(
        2,
        "Jobs",
        record(mulligan.Job),
        record(State),
        constructed(JobFilter),
        "What each field of a job means: [fields](fields.md).",
    )
    yield _section(2, "Events", record(mulligan.Event), "Every type with its data: [events](events.md).")
    yield _section(2, "Batches", record(Batch), *_batch_verbs(), record(mulligan.BatchState))
    yield _section(2, "Services", prose(source.doc(Kinds.ServiceHandle)), *_handle_verbs())
    yield _section(2, "Other records", *(record(kind) for kind in sorted(reachable(), key=lambda kind: kind.__name__)))


def _batch_verbs() -> Iterator[str]:
    yield from (call(f"batch.{name}", verb, level=4) for name, verb in source.verbs(Batch).items())


def _handle_verbs() -> Iterator[str]:
    for name, verb in source.verbs(Kinds.ServiceHandle).items():
        yield call(f"service.{name}", verb, level=4)


def reachable() -> set[type]:
    """Classes that verbs take or return, and the classes in their fields, if no other section has them."""
    verbs = [*source.verbs(Batch).values(), *source.verbs(Kinds.ServiceHandle).values()]
    verbs += [verb for name, verb in source.verbs(App).items() if name not in INTERNAL]
    elsewhere = {getattr(mulligan, name) for name in mulligan.__all__} | set(vars(Kinds).values())
    found: set[type] = set()
    todo = [kind for verb in verbs for kind in _kinds_in(verb, *source.annotations(verb))]
    while todo:
        kind = todo.pop()
        if kind not in found | elsewhere and kind.__name__ not in INTERNAL:
            found.add(kind)
            todo += _kinds_in(kind, *(one.type for one in source.members(kind)))
    return found


def _kinds_in(home: Any, *annotations: str) -> list[type]:
    names = {name for annotation in annotations for name in source.named(annotation)}
    kinds = [source.resolve(home, name) for name in sorted(names)]
    return [kind for kind in kinds if isinstance(kind, type) and kind.__module__.startswith("mulligan")]


def errors() -> Iterator[str]:
    module = sys.modules[mulligan.JobNotFound.__module__]
    tree, _, rest = (module.__doc__ or "").partition("\n\n")[2].partition("\n\n")
    yield "# API: errors"
    yield WRITTEN
    yield (
        "Every error that mulligan raises is a `MulliganError`. Its message says what happened, with the values, and "
        "what is possible. Names that `mulligan` does not export are imported from `mulligan.errors`. "
        "[All pages](api.md)."
    )
    yield code(inspect.cleandoc(tree)).replace("```py", "```")
    yield one_line(rest)
    yield _section(2, "Raised by a task", *(constructed(getattr(mulligan, name)) for name in RAISED))
    rows = (_error_row(getattr(module, name)) for name in sorted({*module.__all__, "MulliganError"} - set(RAISED)))
    yield _section(2, "Every error", table(("error", "attributes", "what a caller can do"), rows))


RAISED = ("FinalError", "RetryableError", "RateLimitedError", "Snooze")


def _error_row(kind: type) -> tuple[str, str, str]:
    return quoted(kind.__name__), ", ".join(map(quoted, source.attributes(kind))), REMEDIES[kind.__name__]


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "api.md": api,
    "api-policies.md": policies,
    "api-records.md": records,
    "api-errors.md": errors,
}


def written(page: str) -> str:
    return "\n\n".join(PAGES[page]()) + "\n"


if __name__ == "__main__":
    for page in PAGES:
        (REFERENCE / page).write_text(written(page), "utf-8")
