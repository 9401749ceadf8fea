"""Rules for common failures. The packs are asked last: the rules of a task and its app take precedence."""

from mulligan.failure.packs import browser, database, ffmpeg, http, process, smtp, system, webhook
from mulligan.failure.rule import Rule

# In the order in which they are asked. System comes last: clients wrap its errors, and a program that cannot be started
# is more than a missing file. Webhook comes before http, which calls every 4xx final, and ffmpeg before process,
# which knows its exit status only.
BUILT_IN: dict[str, tuple[Rule, ...]] = {
    "webhook": webhook.RULES,
    "smtp": smtp.RULES,
    "http": http.RULES,
    "browser": browser.RULES,
    "database": database.RULES,
    "ffmpeg": ffmpeg.RULES,
    "process": process.RULES,
    "system": system.RULES,
}
PACKS: tuple[Rule, ...] = tuple(rule for rules in BUILT_IN.values() for rule in rules)

__all__ = ["BUILT_IN", "PACKS", "browser", "database", "ffmpeg", "http", "process", "smtp", "system", "webhook"]
