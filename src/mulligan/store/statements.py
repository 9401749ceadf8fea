"""SQL lives in `.sql` files named for the store's operation, the same names in every store."""

import re
from collections.abc import Callable, Sequence
from importlib.resources import files

_INCLUDED = re.compile(r"\{\{([a-z_]+)\}\}")


class Statements(dict[str, str]):
    """The `.sql` files of one store, read once. `{{name}}` stands for what is in the file of that name."""

    def __init__(self, package: str, written: Callable[[str], str] = str) -> None:
        super().__init__()
        self._folder = files(package) / "sql"
        self._written = written
        self._texts: dict[str, str] = {}

    def __missing__(self, name: str) -> str:
        self[name] = text = self._written(self._text(name))
        return text

    def filtered(self, name: str, conditions: Sequence[str], **words: str) -> str:
        """A statement with the `{conditions}` that a filter asks for, and other words of ours, such as a `{table}`."""
        text = self._text(name).format(conditions=" AND ".join(conditions), **words)
        return self._written(self._included(text))

    def _text(self, name: str) -> str:
        if name not in self._texts:
            self._texts[name] = self._included((self._folder / f"{name}.sql").read_text("utf-8"))
        return self._texts[name]

    def _included(self, text: str) -> str:
        return _INCLUDED.sub(lambda found: self._text(found[1]).strip(), text)


def in_pyformat(text: str) -> str:
    """`:name` as `%(name)s`; casts (`::text`) stay."""
    return re.sub(r"(?<!:):([a-z_]+)", r"%(\1)s", text.replace("%", "%%"))


def migrations(package: str) -> list[tuple[int, str, str]]:
    """Number, name and text of each migration, in order."""
    found = [file for file in (files(package) / "migrations").iterdir() if file.name.endswith(".sql")]
    return sorted((int(file.name[:3]), file.name[:-4], file.read_text("utf-8")) for file in found)
