"""Children classify by the policies file that is in force in their worker."""

from pathlib import Path

import policed_tasks as tasks

from live import eventually, working


def put(text: str) -> None:
    new = Path("policies.new")
    new.write_text(text)
    new.replace("policies.yaml")


def judged() -> tuple[str | None, str]:
    job = tasks.fails.enqueue()
    eventually(lambda: tasks.app.job(job.id).failures)
    return tasks.app.job(job.id).error_code, str(tasks.app.events(job.id)[-1].data["message"])


def rule(code: str) -> str:
    return f"kinds: {{fails: {{rules: [{{code: {code}, class: final, message: in process}}]}}}}"


def test_a_warm_child_judges_by_a_new_file_and_a_new_child_by_the_old_while_that_is_broken() -> None:
    put(rule("FIRST"))
    with tasks.app as app, working(app, concurrency=1):
        assert judged()[0] == "FIRST"
        before = app.policies.current
        put(rule("SECOND"))
        eventually(lambda: app.policies.current is not before)
        assert judged()[0] == "SECOND"
        put("kinds: [")
        eventually(lambda: app.policies.problem)
        assert judged()[0] == "SECOND"
