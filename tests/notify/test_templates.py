"""The mails that people get: what they say, in text and in HTML."""

import csv
import io
import re
from dataclasses import fields, replace
from datetime import timedelta
from html.parser import HTMLParser

import pytest
from mail_examples import EXAMPLES, GROUP, NOON, SEVERAL, failed

from mulligan.notify.content import Content, render
from mulligan.notify.mail import MOST_ATTACHED
from mulligan.notify.templates import MOST_IN_DIGEST, MOST_LISTED, failure_digest, first_failure, to_csv

URL = "https://jobs.example.org"
NASTY = "<script>alert('x')</script>\r\nBcc: evil@example.org\u202e\x1b[31m"


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.mark.parametrize("content", EXAMPLES.values(), ids=EXAMPLES)
def test_text_and_html_say_the_same_without_scripts_or_images(content) -> None:  # type: ignore[no-untyped-def]
    mail = render(content, public_url=URL, name="Ada")
    page = Tags(mail.html)
    used = {tag for tag, _ in page.tags}
    assert used <= {
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "div",
        "p",
        "h1",
        "table",
        "tr",
        "td",
        "a",
        "br",
        "span",
    }
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert links
    assert all(link and link.startswith(f"{URL}/") and link in mail.text for link in links)
    for words in (content.headline, content.lead, *(part for fact in content.facts for part in fact)):
        assert words in mail.text
        assert words in page.words
    assert 0 < len(mail.subject) <= 120
    assert "\n" not in mail.subject


def test_a_first_failure_names_the_job_the_recipient_and_the_error() -> None:
    assert render(first_failure(failed(1), GROUP), public_url=URL, name="Ada").text == (
        "Hello Ada,\n"
        "\n"
        "convert failed\n"
        "\n"
        "This is the first failure of its kind. More of them will come together in one mail.\n"
        "\n"
        "Error:     GW_5XX: Converter service is having an issue. 502 Bad Gateway from https://gateway.example.org/v2/convert\n"
        "Recipient: customer-1@example.org\n"
        "Owner:     acme\n"
        "Batch:     Spring campaign\n"
        "Attempts:  3\n"
        "Failed:    2026-11-18 12:00 UTC\n"
        "Version:   2026.11.3\n"
        "Job:       01930000-0000-7000-8000-000000000001\n"
        "\n"
        "> httpx.HTTPStatusError: Server error '502 Bad Gateway' for url 'https://gateway.example.org/v2/convert'\n"
        "\n"
        "Open this failure: https://jobs.example.org/failures/gw-5xx-4711\n"
    )


def test_a_digest_counts_by_task_and_code_and_names_each_job() -> None:
    content = failure_digest(SEVERAL, since=NOON, until=NOON + timedelta(minutes=5))
    assert content.subject == "5 jobs failed"
    assert content.facts == [("convert, GW_5XX", "4"), ("stamp, DISK_FULL", "1")]
    mail = render(content)
    for job in SEVERAL:
        assert job.recipient in mail.text
        assert job.id in mail.text
        assert job.id in mail.html
    assert mail.attachments == ()


def test_a_digest_of_more_than_a_hundred_jobs_has_all_of_them_in_a_file() -> None:
    jobs = [failed(number) for number in range(MOST_LISTED + 1)]
    mail = render(failure_digest(jobs, since=NOON, until=NOON))
    assert mail.subject == "101 jobs failed: convert, GW_5XX"
    assert "And 1 more. The attached file failed-jobs.csv names all 101 jobs." in mail.text
    [file] = mail.attachments
    rows = list(csv.DictReader(io.StringIO(file.content)))
    assert [row["job"] for row in rows] == [job.id for job in jobs]
    assert {row["recipient"] for row in rows} == {job.recipient for job in jobs}
    assert len(re.findall(r"^- ", mail.text, re.MULTILINE)) == MOST_LISTED


def test_the_largest_digest_can_be_attached() -> None:
    assert len(to_csv([replace(failed(1), error="x" * 500)] * MOST_IN_DIGEST).encode()) < MOST_ATTACHED


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r\n="])
def test_no_cell_of_the_file_is_a_formula(start: str) -> None:
    content = to_csv([replace(failed(1), recipient=f'{start}HYPERLINK("https://evil.example")')])
    [row] = csv.DictReader(io.StringIO(content))
    assert row["recipient"].startswith("'")


def test_foreign_text_is_only_text() -> None:
    planted = {field.name: NASTY for field in fields(failed(1)) if field.name not in ("failed_at", "attempts")}
    job, group = replace(failed(1), **planted), replace(GROUP, title=NASTY, version=NASTY)  # type: ignore[arg-type]
    for content in (first_failure(job, group), failure_digest([job] * 2, since=NOON, until=NOON)):
        mail = render(content, public_url=URL, name=NASTY)
        assert "script" not in {tag for tag, _ in Tags(mail.html).tags}
        assert "<script>alert('x')</script>" in Tags(mail.html).words
        assert "\x1b" not in mail.text + mail.html + mail.subject
        assert "\u202e" not in mail.text + mail.html + mail.subject
        assert not re.search(r"^Bcc", mail.text, re.MULTILINE)


def test_without_a_public_url_there_are_no_links() -> None:
    for content in EXAMPLES.values():
        mail = render(content)
        assert "href" not in mail.html
        assert "Open th" not in mail.text


def test_a_time_and_an_option_are_not_broken_into_lines() -> None:
    lead = "Since 2026-11-18 12:00 UTC: raise --concurrency, e.g. to 20."
    mail = render(Content(subject="s", headline="h", lead=lead))
    for unbroken in ("2026-11-18 12:00 UTC", "--concurrency"):
        assert f'<span style="white-space:nowrap">{unbroken}</span>' in mail.html
    assert lead in mail.text
    assert lead in Tags(mail.html).words
