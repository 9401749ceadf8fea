"""What an operator sets. A value that cannot work stops the start, and says what is allowed."""


class SettingRefused(ValueError):
    """A variable has a value that cannot work."""

    def __init__(self, name: str, value: str, allowed: str) -> None:
        super().__init__(f"{name} is {value!r}, but it must be {allowed}")
