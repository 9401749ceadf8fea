"""What a mail says, and how that is written: as plain text, and as HTML for mail programs.

The HTML has one column, inline styles and no images, because mail programs remove or ignore most else. Colours of the
dark scheme are in a style sheet; a program that removes it shows the light scheme.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from html import escape

from mulligan.notify.mail import Attachment, one_line
from mulligan.values.text import safe


class Tone(StrEnum):
    """The colour of a mail's upper edge."""

    BAD = "bad"
    GOOD = "good"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of a list, a line for each part. `path` leads to it below the public URL."""

    title: str
    detail: str = ""
    note: str = ""
    reference: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """`facts` are pairs of a label and a value. `action` is the words of a link, and its path below the public URL."""

    subject: str
    headline: str
    lead: str
    tone: Tone = Tone.PLAIN
    facts: Sequence[tuple[str, str]] = ()
    quote: str = ""
    entries: Sequence[Entry] = ()
    rest: str = ""
    action: tuple[str, str] | None = None
    attachments: Sequence[Attachment] = ()


@dataclass(frozen=True, slots=True)
class Rendered:
    """The parts of a `Mail` that a template makes."""

    subject: str
    text: str
    html: str
    attachments: tuple[Attachment, ...] = ()


def render(content: Content, *, public_url: str | None = None, name: str | None = None) -> Rendered:
    """The mail's subject, text and HTML. Without a public URL it has no links. `name` is whom it greets."""
    return Rendered(
        one_line(content.subject),
        "\n".join(_text(content, public_url, name)),
        _html(content, public_url, name),
        tuple(content.attachments),
    )


def _text(content: Content, public_url: str | None, name: str | None) -> Iterable[str]:
    yield from (f"Hello {_line(name)},", "") if name else ()
    yield from (_line(content.headline), "", _line(content.lead))
    if content.facts:
        width = max(len(label) for label, _ in content.facts) + 2
        yield from ("", *(f"{f'{label}:':<{width}}{_line(value)}" for label, value in content.facts))
    if content.quote:
        yield from ("", *(f"> {line}" for line in _lines(content.quote)))
    for entry in content.entries:
        parts = (
            _line(part) for part in (entry.detail, entry.note, _link(public_url, entry.path) or entry.reference) if part
        )
        yield from ("", f"- {_line(entry.title)}", *(f"  {part}" for part in parts))
    yield from ("", _line(content.rest)) if content.rest else ()
    if content.action and public_url:
        yield from ("", f"{content.action[0]}: {_link(public_url, content.action[1])}")
    yield ""


def _line(text: str) -> str:
    return safe(text)


def _lines(text: str) -> list[str]:
    return [safe(line) for line in text.splitlines()]


def _link(public_url: str | None, path: str) -> str:
    return f"{public_url}/{path.lstrip('/')}" if public_url and path else ""


_EDGES = {Tone.BAD: "#c0392b", Tone.GOOD: "#1e8e5a", Tone.PLAIN: "#5b6b7b"}
_FONT = "-apple-system,BlinkMacSystemFont,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"
_MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"
_DARK = """
@media (prefers-color-scheme: dark) {
  .page { background: #14181d !important; }
  .card { background: #1d232a !important; color: #e6e9ec !important; border-left-color: #333c46 !important;
    border-right-color: #333c46 !important; border-bottom-color: #333c46 !important; }
  .soft { color: #a3aeb9 !important; }
  .quote { background: #14181d !important; color: #d5dade !important; border-color: #333c46 !important; }
  .row { border-color: #333c46 !important; }
  .link { color: #7db4ff !important; }
  .button { background: #7db4ff !important; color: #10151a !important; }
}
"""


def _html(content: Content, public_url: str | None, name: str | None) -> str:
    parts = [
        f'<p style="margin:0 0 16px">Hello {_escape(name)},</p>' if name else "",
        f'<h1 style="margin:0 0 8px;font-size:20px;line-height:1.3;font-weight:600">{_flow(content.headline)}</h1>',
        f'<p style="margin:0 0 20px">{_flow(content.lead)}</p>',
        _facts(content.facts),
        _quote(content.quote),
        _entries(content.entries, public_url),
        f'<p class="soft" style="margin:16px 0 0;color:#5b6b7b">{_escape(content.rest)}</p>' if content.rest else "",
        _action(content.action, public_url),
    ]
    return _PAGE.format(
        title=_escape(one_line(content.subject)),
        dark=_DARK,
        font=_FONT,
        edge=_EDGES[content.tone],
        body="\n".join(part for part in parts if part),
    )


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<title>{title}</title>
<style>{dark}</style>
</head>
<body class="page" style="margin:0;padding:0;background:#f3f5f7">
<div class="page" style="background:#f3f5f7;padding:20px 12px">
<div class="card" style="max-width:600px;margin:0 auto;background:#ffffff;color:#1c2530;border:1px solid #dde3e9;\
border-top:4px solid {edge};border-radius:6px;padding:24px;font:15px/1.5 {font};overflow-wrap:anywhere">
{body}
</div>
</div>
</body>
</html>
"""


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    if not facts:
        return ""
    rows = "".join(
        f'<tr><td class="soft" style="padding:3px 16px 3px 0;color:#5b6b7b;white-space:nowrap;vertical-align:top">'
        f'{_escape(label)}</td><td style="padding:3px 0;vertical-align:top">{_flow(value)}</td></tr>'
        for label, value in facts
    )
    style = "border-collapse:collapse;font:inherit;color:inherit;margin:0 0 20px"
    return f'<table role="presentation" style="{style}">{rows}</table>'


def _quote(quote: str) -> str:
    if not quote:
        return ""
    lines = "<br>".join(escape(line) for line in _lines(quote))
    return (
        f'<div class="quote" style="background:#f6f8fa;border:1px solid #dde3e9;border-radius:4px;padding:10px 12px;'
        f'margin:0 0 20px;font:13px/1.5 {_MONO};color:#28323c">{lines}</div>'
    )


def _entries(entries: Sequence[Entry], public_url: str | None) -> str:
    return "".join(_entry(entry, _link(public_url, entry.path)) for entry in entries)


def _entry(entry: Entry, link: str) -> str:
    title = _escape(entry.title)
    if link:
        title = f'<a class="link" href="{_escape(link)}" style="color:#1a5fb4;text-decoration:none">{title}</a>'
    detail = f"<div>{_flow(entry.detail)}</div>" if entry.detail else ""
    soft = "".join(
        f'<div class="soft" style="color:#5b6b7b;font-size:13px">{_flow(line)}</div>'
        for line in (entry.note, entry.reference)
        if line
    )
    return (
        f'<div class="row" style="border-top:1px solid #e4e9ee;padding:10px 0">'
        f'<div style="font-weight:600">{title}</div>{detail}{soft}</div>'
    )


def _action(action: tuple[str, str] | None, public_url: str | None) -> str:
    link = _link(public_url, action[1]) if action else ""
    if not action or not link:
        return ""
    style = (
        "display:inline-block;background:#1a5fb4;color:#ffffff;text-decoration:none;padding:9px 16px;"
        "border-radius:4px;font-weight:600"
    )
    button = f'<a class="button" href="{_escape(link)}" style="{style}">{_escape(action[0])}</a>'
    return f'<p style="margin:24px 0 0">{button}</p>'


def _escape(text: str | None) -> str:
    return escape(safe(text or ""))


# A time and the option of a command break at their hyphens otherwise, and are hard to read then.
_UNBROKEN = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d(?::\d\d)?)?(?: UTC)?|(?<!\S)--[a-z][a-z-]*")


def _flow(text: str) -> str:
    """Text that is broken into lines."""
    return _UNBROKEN.sub(lambda found: f'<span style="white-space:nowrap">{found[0]}</span>', _escape(text))
