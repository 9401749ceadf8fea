"""The tables: what people say about campaigns and recipients. What became of the work is in the engine's own tables."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, MetaData, String, Table, Text

from apps.pages.database import Moment


class Tables:
    """An account's campaigns, their tokens, and its detections are deleted with it."""

    def __init__(self, metadata: MetaData, accounts: Table) -> None:
        self.campaigns = Table(
            "campaigns",
            metadata,
            Column("id", String(36), primary_key=True),
            Column("account", ForeignKey(accounts.c.id, ondelete="CASCADE"), nullable=False),
            Column("name", Text, nullable=False),
            Column("video_name", Text, nullable=False),
            Column("video_size", BigInteger, nullable=False),
            Column("visible_wm", Boolean, nullable=False, default=True),
            Column("invisible_wm", Boolean, nullable=False, default=True),
            Column("max_downloads", Integer),
            Column("max_attempts", Integer),
            Column("expires_at", Moment),
            Column("batch", Text),
            Column("created_at", Moment, nullable=False),
            Column("published_at", Moment),
            Index("campaigns_of_account", "account", "created_at"),
            Index("campaigns_by_batch", "batch"),
        )
        self.tokens = Table(
            "tokens",
            metadata,
            Column("id", String(36), primary_key=True),
            Column("campaign", ForeignKey(self.campaigns.c.id, ondelete="CASCADE"), nullable=False),
            Column("place", Integer, nullable=False),
            Column("recipient", Text, nullable=False),
            # What the download link contains. It is not the id: the mark is made of that.
            Column("link", Text, nullable=False, unique=True),
            Column("downloads", Integer, nullable=False, default=0),
            Column("job", Text),
            Index("tokens_of_campaign", "campaign", "place"),
            Index("tokens_by_job", "job"),
        )
        self.detections = Table(
            "detections",
            metadata,
            Column("id", String(36), primary_key=True),
            Column("account", ForeignKey(accounts.c.id, ondelete="CASCADE"), nullable=False),
            Column("campaign", ForeignKey(self.campaigns.c.id, ondelete="CASCADE")),
            Column("video_name", Text, nullable=False),
            Column("job", Text, nullable=False),
            Column("created_at", Moment, nullable=False),
            Index("detections_of_account", "account", "created_at"),
        )
