"""The durable record of a search, and the search that makes it."""

from optsmith.storage import Store, list_studies, mask
from optsmith.study._compare import By, StudyComparison, compare_studies
from optsmith.study._context import FINAL, SEARCH, Context, Job, evaluate_all, prepare, run_job
from optsmith.study._evaluate import evaluate
from optsmith.study._finding import Finding
from optsmith.study._finish import stored_call
from optsmith.study._guard import Guard
from optsmith.study._known import is_known, known_name, without_known
from optsmith.study._ledger import Entry, Ledger
from optsmith.study._observer import Observer
from optsmith.study._prepare import default_searcher
from optsmith.study._recorder import Recorder
from optsmith.study._runner import Runner
from optsmith.study._search import search
from optsmith.study._settings import Settings, flat
from optsmith.study._study import Study
from optsmith.study._study import row as study_row
from optsmith.study._tally import Tally
from optsmith.study._work import SIDE_BY_SIDE

__all__ = [
    "FINAL",
    "SEARCH",
    "SIDE_BY_SIDE",
    "By",
    "Context",
    "Entry",
    "Finding",
    "Guard",
    "Job",
    "Ledger",
    "Observer",
    "Recorder",
    "Runner",
    "Settings",
    "Store",
    "Study",
    "StudyComparison",
    "Tally",
    "compare_studies",
    "default_searcher",
    "evaluate",
    "evaluate_all",
    "flat",
    "is_known",
    "known_name",
    "list_studies",
    "mask",
    "prepare",
    "run_job",
    "search",
    "stored_call",
    "study_row",
    "without_known",
]
