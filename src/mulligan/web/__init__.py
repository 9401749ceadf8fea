"""The HTTP API and the dashboard. They parse, call the verbs of an app through a console, and render.

Pages of your own beside the dashboard may use the names below: times are shown alike, its script keeps them up to date,
forms of other sites are refused alike, and what may be tried only so often is counted alike.
"""

from mulligan.web.access.access import client_network
from mulligan.web.access.origin import is_same_origin
from mulligan.web.access.page_rates import charge
from mulligan.web.pages.words import ago, countdown_tag, exact, time_tag
from mulligan.web.server import asgi

__all__ = ["ago", "asgi", "charge", "client_network", "countdown_tag", "exact", "is_same_origin", "time_tag"]
