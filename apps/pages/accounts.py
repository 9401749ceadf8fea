"""Accounts of people: sign up, sign in, sign out. A password is stored as a salted hash that is slow to compute."""

import asyncio
import hashlib
import secrets
from base64 import b64decode, b64encode
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from hmac import compare_digest
from typing import Any

from sqlalchemy import Column, String, Table, Text, select
from sqlalchemy.exc import IntegrityError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from apps.pages.clock import Now, system_time
from apps.pages.database import Database, Moment
from apps.pages.flash import flash
from apps.pages.forms import read_form
from apps.pages.problems import Elsewhere, Problem
from apps.pages.rates import charge
from apps.pages.redirect import redirect
from apps.pages.render import page
from apps.pages.session import sign_in, start_anew

LONGEST_SESSION = timedelta(hours=12)
SHORTEST_PASSWORD, LONGEST = 10, 200
# New accounts from one address; tries to sign in from one address, and with one account.
SIGN_UPS, SIGN_INS, TRIES = "20/h", "30/m", "10/m"
_ACCOUNT, _SINCE = "account", "signed-in"


@dataclass(frozen=True, slots=True)
class Account:
    id: str
    email: str
    name: str


class Accounts:
    """The accounts of an application, and their pages."""

    def __init__(self, database: Database, *, now: Now = system_time) -> None:
        self._database, self._now = database, now
        self.table = Table(
            "accounts",
            database.metadata,
            Column("id", String(36), primary_key=True),
            Column("email", Text, nullable=False, unique=True),
            Column("name", Text, nullable=False),
            Column("password", Text, nullable=False),
            Column("created_at", Moment, nullable=False),
        )
        self._decoy = hash_password("no account has it")

    def routes(self) -> list[Route]:
        return [
            Route("/sign-in", self.sign_in_page, methods=["GET"]),
            Route("/sign-in", self.sign_in, methods=["POST"]),
            Route("/sign-up", self.sign_up_page, methods=["GET"]),
            Route("/sign-up", self.sign_up, methods=["POST"]),
            Route("/sign-out", self.sign_out, methods=["POST"]),
        ]

    # Pages

    async def sign_in_page(self, request: Request) -> Response:
        return page(request, "sign_in.html", form={}, problem=None, next=_next(request))

    async def sign_up_page(self, request: Request) -> Response:
        return page(request, "sign_up.html", form={}, problem=None, next=_next(request))

    async def sign_in(self, request: Request) -> Response:
        form = await read_form(request)
        email = form.get("email", "").strip().lower()
        await charge(request, "sign-in", SIGN_INS)
        await charge(request, "account", TRIES, email)
        found = await asyncio.to_thread(self._find, email, form.get("password", ""))
        if found is None:
            problem = "There is no account with this address and password."
            return page(request, "sign_in.html", status=401, form=form, problem=problem, next=form.get("next", "/"))
        return await asyncio.to_thread(self._enter, request, found, form)

    async def sign_up(self, request: Request) -> Response:
        form = await read_form(request)
        await charge(request, "sign-up", SIGN_UPS)
        try:
            given = (form.get(name, "") for name in ("email", "name", "password"))
            made = await asyncio.to_thread(self.create, *given)
        except ValueError as error:
            return page(request, "sign_up.html", status=400, form=form, problem=str(error), next=form.get("next", "/"))
        return await asyncio.to_thread(self._enter, request, made, form)

    async def sign_out(self, request: Request) -> Response:
        await read_form(request)
        await asyncio.to_thread(start_anew, request)
        return redirect(request, "/sign-in")

    def _enter(self, request: Request, account: Account, form: dict[str, str]) -> Response:
        start_anew(request)
        sign_in(request, **{_ACCOUNT: account.id, _SINCE: self._now().isoformat()})
        flash(request, f"Signed in as {account.name}.")
        target = form.get("next", "/")
        return redirect(request, target if is_local(target) else "/")

    # Accounts

    def create(self, email: str, name: str, password: str) -> Account:
        """Raises ValueError, with what is possible."""
        email, name = email.strip().lower(), name.strip()
        if not 3 <= len(email) <= LONGEST or "@" not in email[1:-1] or not email.isprintable() or " " in email:
            raise ValueError("Give an email address such as ann@example.org.")
        if not 1 <= len(name) <= LONGEST or not name.isprintable():
            raise ValueError("Give a name.")
        if not SHORTEST_PASSWORD <= len(password) <= LONGEST:
            raise ValueError(f"A password has {SHORTEST_PASSWORD} to {LONGEST} characters.")
        account = Account(secrets.token_hex(16), email, name)
        values = {**asdict(account), "password": hash_password(password), "created_at": self._now()}
        try:
            with self._database.transaction() as connection:
                connection.execute(self.table.insert().values(values))
        except IntegrityError:
            raise ValueError("There is an account with this address already.") from None
        return account

    def get(self, account_id: str) -> Account | None:
        with self._database.read() as connection:
            row = connection.execute(select(self.table).where(self.table.c.id == account_id)).first()
        return None if row is None else _to_account(row)

    def _find(self, email: str, password: str) -> Account | None:
        with self._database.read() as connection:
            row = connection.execute(select(self.table).where(self.table.c.email == email)).first()
        # An unknown address takes as long as a wrong password.
        is_right = has_password(self._decoy if row is None else row.password, password)
        return _to_account(row) if row is not None and is_right else None

    def of(self, request: Request) -> Account | None:
        """The account that is signed in."""
        account_id, since = (request.session.get(name) for name in (_ACCOUNT, _SINCE))
        if account_id is None or since is None:
            return None
        if self._now() - datetime.fromisoformat(since) > LONGEST_SESSION:
            start_anew(request)
            return None
        return self.get(account_id)


def account_of(request: Request) -> Account | None:
    found: Account | None = request.app.state.site.account(request)
    return found


def require_account(request: Request) -> Account:
    """The account that is signed in; others go to the page where they can."""
    found = account_of(request)
    if found is None:
        if request.method != "GET" or request.url.path.startswith("/api/"):
            raise Problem(401, "UNAUTHORIZED", "Sign in first.")
        raise Elsewhere(f"{_root(request)}/sign-in?next={request.url.path}")
    return found


def hash_password(password: str) -> str:
    salt = secrets.token_bytes(16)
    return f"{b64encode(salt).decode()}${b64encode(_scrypt(password, salt)).decode()}"


def has_password(stored: str, password: str) -> bool:
    salt, _, expected = stored.partition("$")
    return compare_digest(_scrypt(password[:LONGEST], b64decode(salt)), b64decode(expected))


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=2**14, r=8, p=1)


def is_local(path: str) -> bool:
    """A path of this server, and no address of another."""
    return path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()


def _next(request: Request) -> str:
    target = request.query_params.get("next", "/")
    return target if is_local(target) else "/"


def _root(request: Request) -> str:
    return str(request.scope.get("root_path", ""))


def _to_account(row: Any) -> Account:
    return Account(row.id, row.email, row.name)
