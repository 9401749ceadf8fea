"""Files are whole or absent."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from apps.pdfxml.storage import LocalStorage


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "in", tmp_path / "out")


def test_a_source_is_taken_over(storage: LocalStorage, tmp_path: Path) -> None:
    document, path = uuid4().hex, tmp_path / "upload"
    path.write_bytes(b"%PDF-")
    storage.keep_source(document, path)
    assert storage.has_source(document) and not path.exists()
    with storage.open_source(document) as file:
        assert file.read() == b"%PDF-"


def test_p2_a_result_that_breaks_off_leaves_nothing(storage: LocalStorage) -> None:
    document = uuid4().hex

    def chunks() -> Iterator[bytes]:
        yield b"<document>"
        assert not storage.has_result(document)
        raise OSError("the connection broke")

    with pytest.raises(OSError, match="broke"):
        storage.write_result(document, chunks())
    assert not storage.has_result(document)
    assert list(storage.results.iterdir()) == []


def test_p2_a_second_writer_replaces_a_result_as_a_whole(storage: LocalStorage) -> None:
    document = uuid4().hex

    def overtaken() -> Iterator[bytes]:
        yield b"<a>"
        storage.write_result(document, [b"<b/>"])
        with storage.open_result(document) as file:
            assert file.read() == b"<b/>"
        yield b"</a>"

    assert storage.write_result(document, overtaken()) == 7
    with storage.open_result(document) as file:
        assert file.read() == b"<a></a>"
    assert len(list(storage.results.iterdir())) == 1


@pytest.mark.parametrize("name", ["../secret", "a/b", "", "x" * 32, "A" * 32, "0" * 31])
def test_nothing_but_an_id_becomes_part_of_a_path(storage: LocalStorage, name: str) -> None:
    with pytest.raises(ValueError, match="not the id"):
        storage.has_source(name)


def test_what_a_killed_writer_left_behind_is_removed(storage: LocalStorage) -> None:
    (storage.results / f"{uuid4().hex}.xml.{uuid4().hex}.part").write_bytes(b"<half")
    (storage.uploads / "upload-abc").write_bytes(b"half")
    assert list(storage.older_than(timedelta(hours=1))) == []
    assert len(list(storage.results.iterdir())) == 1
    later = LocalStorage(storage.uploads, storage.results, now=lambda: datetime.now(UTC) + timedelta(hours=2))
    assert list(later.older_than(timedelta(hours=1))) == []
    assert [*storage.results.iterdir(), *storage.uploads.iterdir()] == []
