"""Retention: files of conversions that ended long ago are removed; their records stay for a while."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from apps.pages.database import Database
from apps.pdfxml.documents import Document, Documents
from apps.pdfxml.storage import Storage
from mulligan import App, Job, JobFilter, State

PAGE = 200
# An upload is stored before its row is. A file without a row is this old before it counts as left behind.
SPARE = timedelta(hours=1)


@dataclass(frozen=True)
class Retention:
    app: App
    database: Database
    documents: Documents
    storage: Storage
    age: timedelta
    memory: timedelta

    def run(self, now: datetime) -> int:
        """Remove what is due, and return how many conversions expired. It can be repeated at any point."""
        expired = self._expire_old(now)
        self._remove_leftovers()
        with self.database.transaction() as connection:
            self.documents.forget_removed(connection, now - self.memory)
        return expired

    def _expire_old(self, now: datetime) -> int:
        until, after, expired = now - self.age, None, 0
        while True:
            with self.database.read() as connection:
                page = self.documents.list_old(connection, until, limit=PAGE, after=after)
            if not page:
                return expired
            after = page[-1].job
            wanted = JobFilter(ids=[document.job for document in page])
            jobs = {job.id: job for job in self.app.jobs(wanted, limit=PAGE).jobs}
            due = [document for document in page if _is_over(jobs.get(document.job), until)]
            for document in due:
                self._expire(document, jobs.get(document.job), now)
            expired += len(due)

    def _expire(self, document: Document, job: Job[int] | None, now: datetime) -> None:
        """Files first: a run that dies in between is repeated, and until then a download finds no file."""
        self.storage.remove(document.id)
        with self.database.transaction() as connection:
            self.documents.mark_removed(connection, document, now)
            if job is not None and job.state is State.SUCCEEDED:
                self.app.expire_result(job.id, reason="retention", connection=connection)
                # The next upload of the same file is a new conversion.
                self.app.release_key(job.id, reason="retention", connection=connection)

    def _remove_leftovers(self) -> None:
        """Remove files of uploads that never became a document, and of documents that were removed."""
        # By the clock of the files: by that of the store, an upload that is just coming in could look old.
        old = self.storage.older_than(SPARE)
        while found := list(islice(old, PAGE)):
            with self.database.read() as connection:
                known = self.documents.known(connection, found)
            for document in set(found) - known:
                self.storage.remove(document)


def _is_over(job: Job[int] | None, until: datetime) -> bool:
    return job is None or (job.finished_at is not None and job.finished_at <= until)
