"""SQL is in `.sql` files named for the store's operation: in `store/sql/` if both databases share the statement, else
in the folder of each database under the same name. Shared statements are written for PostgreSQL."""

import re
from collections.abc import Callable, Sequence
from importlib.resources import files

SHARED = "mulligan.store"

_INCLUDED = re.compile(r"\{\{([a-z_]+)\}\}")
_CAST = re.compile(r"::(?:text|bigint|json)\b")
_ROW_LOCK = re.compile(r"\s+FOR UPDATE(?: SKIP LOCKED)?\b")
_LIST = re.compile(r"= ANY \(ARRAY\(SELECT json_array_elements_text\((:[a-z_]+)\)\)\)")
_ELEMENTS = re.compile(r"\bjson_array_elements_text\((:[a-z_]+)\)")


class Statements(dict[str, str]):
    """The statements of one backend, read once. `{{name}}` includes the file of that name."""

    def __init__(self, package: str, dialect: Callable[[str], str]) -> None:
        super().__init__()
        self._folders = [files(package) / "sql", files(SHARED) / "sql"]
        self._dialect = dialect
        self._texts: dict[str, str] = {}

    def __missing__(self, name: str) -> str:
        self[name] = text = self._dialect(self._text(name))
        return text

    def filtered(self, name: str, conditions: Sequence[str], **words: str) -> str:
        """Return a statement with the `{conditions}` of a filter and other constants, such as a `{table}`."""
        text = self._text(name).format(conditions=" AND ".join(conditions), **words)
        return self._dialect(self._include(text))

    def _text(self, name: str) -> str:
        if name not in self._texts:
            file = next(file for folder in self._folders if (file := folder / f"{name}.sql").is_file())
            self._texts[name] = self._include(file.read_text("utf-8"))
        return self._texts[name]

    def _include(self, text: str) -> str:
        return _INCLUDED.sub(lambda found: self._text(found[1]).strip(), text)


def for_postgres(text: str) -> str:
    """Rewrite `:name` as `%(name)s`. Casts (`::text`) stay."""
    return re.sub(r"(?<!:):([a-z_]+)", r"%(\1)s", text.replace("%", "%%"))


def for_sqlite(text: str) -> str:
    """Remove casts and row locks: types are dynamic, and there is one writer."""
    text = _LIST.sub(r"IN (SELECT value FROM json_each(\1))", _ROW_LOCK.sub("", _CAST.sub("", text)))
    return _ELEMENTS.sub(r"value FROM json_each(\1)", text).replace("greatest(", "max(")


def migrations(package: str) -> list[tuple[int, str, str]]:
    """Return number, name and text of each migration, in order."""
    found = [file for file in (files(package) / "migrations").iterdir() if file.name.endswith(".sql")]
    return sorted((int(file.name[:3]), file.name[:-4], file.read_text("utf-8")) for file in found)
