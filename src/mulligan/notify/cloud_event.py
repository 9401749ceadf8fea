"""Bodies of webhooks: a CloudEvent as JSON, encoded once and sent unchanged by every attempt."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

CONTENT_TYPE = "application/cloudevents+json"


def encode(
    data: Mapping[str, Any],
    *,
    id: str,  # noqa: A002
    type: str,  # noqa: A002
    source: str,
    time: datetime,
    subject: str | None = None,
    sequence: int | None = None,
) -> bytes:
    """The frozen body. Keys are in a fixed order.

    `source` says where the event comes from, such as the public URL of this installation; `id` is unique there.
    `sequence` is the extension of that name: it numbers the events about one subject.
    """
    event: dict[str, Any] = {"specversion": "1.0", "id": id, "source": source, "type": type, "time": time}
    if subject is not None:
        event["subject"] = subject
    if sequence is not None:
        event["sequence"] = str(sequence)
    return msgspec.json.encode({**event, "datacontenttype": "application/json", "data": dict(data)})
