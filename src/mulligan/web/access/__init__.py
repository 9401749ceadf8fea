"""Who calls, and what the call may do.

`KeyAccess` is the access of a server: keys, scopes, request rates, idempotency and the audit. `first_link` and
`may_listen` are for its start.
"""
