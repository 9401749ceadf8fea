"""What an operator sets. A value that cannot work stops the start, and says what is allowed."""


class SettingRefused(ValueError):
    """A variable has a value that cannot work. The message does not repeat one that may have a secret (None)."""

    def __init__(self, name: str, value: str | None, allowed: str) -> None:
        given = name if value is None else f"{name} is {value!r}, but it"
        super().__init__(f"{given} must be {allowed}")
