import itertools
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from apps.runs.leaderboard.server import Board
from apps.runs.leaderboard.serving import serve_leaderboard
from postgres_server import PostgresServer
from runs_world import World, open_world

from mulligan import App

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres(server: PostgresServer) -> PostgresServer:
    """A server with a database whose tables every new one copies."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE runs_template")
    with App(server.url("runs_template")) as app:
        app.migrate()
    return server


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new database of each store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/runs.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    name = f"runs_{next(_numbers)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE runs_template")
    return server.url(name)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/runs.db"


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[Board, str]]:
    """One server of a module; each test has the board to itself."""
    board = Board()
    with serve_leaderboard(board) as found:
        yield board, found


@pytest.fixture
def board(address: tuple[Board, str]) -> Board:
    found, _ = address
    found.reset()
    return found


@pytest.fixture
def world(url: str, board: Board, address: tuple[Board, str], tmp_path: Path) -> Iterator[World]:
    """The application on one of the stores, with a real leaderboard."""
    with open_world(url, board, address[1], tmp_path) as found:
        yield found


@pytest.fixture
def quick_world(sqlite_url: str, board: Board, address: tuple[Board, str], tmp_path: Path) -> Iterator[World]:
    """The same on SQLite alone, where the store does not matter."""
    with open_world(sqlite_url, board, address[1], tmp_path) as found:
        yield found
