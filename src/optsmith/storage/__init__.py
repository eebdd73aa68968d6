"""Storage of studies in a journal file or a database, with Optuna's storages."""

from optsmith.storage import _optuna  # noqa: F401 - before any other import of Optuna
from optsmith.storage._mark import SCHEMA_KEY, Direction
from optsmith.storage._place import list_studies
from optsmith.storage._record import Record
from optsmith.storage._store import Store
from optsmith.storage._url import journal_path, mask

__all__ = ["SCHEMA_KEY", "Direction", "Record", "Store", "journal_path", "list_studies", "mask"]
