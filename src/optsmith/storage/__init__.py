"""Storage of studies in a journal file or a database, with Optuna's storages."""

from optsmith.storage._mark import SCHEMA_KEY, Direction
from optsmith.storage._place import list_studies
from optsmith.storage._record import Record
from optsmith.storage._store import Store
from optsmith.storage._url import mask

__all__ = ["SCHEMA_KEY", "Direction", "Record", "Store", "list_studies", "mask"]
