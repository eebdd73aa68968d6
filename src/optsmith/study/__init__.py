"""The durable record of a search, and the search that makes it."""

from optsmith.storage import Store, list_studies, mask
from optsmith.study._bench import Bench, evaluate_all, evaluate_job
from optsmith.study._evaluate import evaluate
from optsmith.study._observer import Observer
from optsmith.study._search import search
from optsmith.study._settings import Settings
from optsmith.study._study import Study
from optsmith.study._study import row as study_row
from optsmith.study._tally import Tally

__all__ = [
    "Bench",
    "Observer",
    "Settings",
    "Store",
    "Study",
    "Tally",
    "evaluate",
    "evaluate_all",
    "evaluate_job",
    "list_studies",
    "mask",
    "search",
    "study_row",
]
