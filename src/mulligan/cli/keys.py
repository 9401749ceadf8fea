"""`mulligan keys`: keys of the HTTP API."""

from datetime import datetime, timedelta

import click

from mulligan.cli.errors import WrongUsage
from mulligan.cli.opening import open_app, open_existing, open_for_watching
from mulligan.cli.options import ACTOR, REQUEST_ID, Group, SharedOptions, limit_option, one_argument, pass_shared
from mulligan.cli.output import show, show_table
from mulligan.cli.parameters import duration, text
from mulligan.explain.words import at
from mulligan.records.document import document_of
from mulligan.records.key import Key, Scope


@click.group("keys", cls=Group)
def keys() -> None:
    """Create, list and revoke keys of the HTTP API, and sign in to the dashboard with one."""


@keys.command("create")
@click.option("--name", type=text, required=True, help="For people: what the key is used for.")
@click.option("--owner", type=text, help="The owner whose jobs the key can reach.")
@click.option("--admin", "is_admin", is_flag=True, help="A key of an administrator, for the jobs of all owners.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([str(scope) for scope in Scope]),
    multiple=True,
    help="What the key allows; may be given several times.  [default: to read, enqueue, retry and cancel jobs; with "
    "--admin everything]",
)
@click.option("--expires-in", metavar="DURATION", type=duration, help="Such as 90d.  [default: it does not expire]")
@ACTOR
@REQUEST_ID
@pass_shared
def create(
    shared: SharedOptions,
    /,
    *,
    name: str,
    owner: str | None,
    is_admin: bool,
    scopes: tuple[str, ...],
    expires_in: timedelta | None,
    actor: str,
    request_id: str | None,
) -> None:
    """Create a key and print its token, which is not stored: it is shown this once."""
    if is_admin == (owner is not None):
        raise WrongUsage("UsageError", "give either --owner NAME or --admin", shared)
    with open_app(shared) as app:
        created = app.create_key(
            owner=owner, name=name, scopes=scopes or None, expires_in=expires_in, actor=actor, request_id=request_id
        )
        now = app.store.now()
    key = created.key
    whose = "an administrator" if key.owner is None else f"owner {key.owner!r}"
    show(
        shared,
        document_of(created),
        created.token,
        f"Key {key.id} of {whose}: {', '.join(key.scopes)}; {_expiry(key, now)}. The token is not shown again.",
    )


def _expiry(key: Key, now: datetime) -> str:
    return "it does not expire" if key.expires_at is None else f"it expires {at(key.expires_at, now)}"


@keys.command("list")
@click.option("--owner", type=text, help="Only the keys of this owner.")
@limit_option(50)
@click.option("--cursor", type=text, help="The id of the last key of the previous page.")
@pass_shared
def list_keys(shared: SharedOptions, /, *, owner: str | None, limit: int, cursor: str | None) -> None:
    """List keys by id, with their owners and scopes. Tokens are not stored."""
    with open_existing(shared) as app:
        found, now = app.keys(owner=owner, limit=limit, cursor=cursor), app.store.now()
    headings = ("Id", "Ends with", "Owner", "Name", "State", "Last used", "Scopes")
    document = {"keys": [document_of(key) for key in found]}
    show_table(shared, document, headings, [_row(key, now) for key in found], empty="No keys.")


def _row(key: Key, now: datetime) -> tuple[str, ...]:
    owner = "(administrator)" if key.owner is None else key.owner
    used = "never" if key.last_used_at is None else at(key.last_used_at, now)
    return key.id, key.last_four, owner, key.name, _state(key, now), used, ", ".join(key.scopes)


def _state(key: Key, now: datetime) -> str:
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is None:
        return "valid"
    return "expired" if key.expires_at <= now else f"valid until {at(key.expires_at, now)}"


@keys.command("link")
@one_argument("key_id", "ID")
@click.option("--url", type=text, default="http://127.0.0.1:8000", show_default=True, help="The address of the server.")
@ACTOR
@pass_shared
def link(shared: SharedOptions, /, *, key_id: str, url: str, actor: str) -> None:
    """Print a link that signs in to the dashboard with a key, once, within ten minutes."""
    with open_for_watching(shared) as app:
        token = app.sign_in_link(app.find_id("key", key_id), actor=actor)
    found = f"{url.rstrip('/')}/sign-in?link={token}"
    show(shared, {"link": found}, found)


@keys.command("revoke")
@one_argument("key_id", "ID")
@ACTOR
@REQUEST_ID
@pass_shared
def revoke(shared: SharedOptions, /, *, key_id: str, actor: str, request_id: str | None) -> None:
    """Revoke a key. Within a second, every server refuses it."""
    with open_for_watching(shared) as app:
        revoked = app.revoke_key(app.find_id("key", key_id), actor=actor, request_id=request_id)
    show(shared, document_of(revoked), f"Key {revoked.id} ({revoked.name}) is revoked.")
