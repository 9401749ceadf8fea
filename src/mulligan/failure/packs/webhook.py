"""Failures of outgoing webhooks. Broken connections and other statuses are judged by the packs `http` and `system`."""

from mulligan.errors import TargetRefused, WebhookFailed
from mulligan.failure.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule("TARGET_REFUSED", "final", when=TargetRefused, name="webhook.target"),
    Rule("WEBHOOK_GONE", "final", when=WebhookFailed, status=410, name="webhook.gone"),
    # The same body would be too large again.
    Rule("HTTP_4XX", "final", when=WebhookFailed, status=413, name="webhook.too_large"),
    Rule("RATE_LIMITED", "rate_limited", when=WebhookFailed, status=429, name="webhook.429"),
    # 401, 403 and 404 too: the receiver deploys, renews a key or mends its proxy, and must not miss the event.
    Rule("HTTP_4XX", "retryable", when=WebhookFailed, status=range(400, 500), name="webhook.4xx"),
)
