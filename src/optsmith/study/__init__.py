"""The durable record of a search, and the search that makes it."""

from optsmith.storage import Store, list_studies, mask
from optsmith.study._context import FINAL, SEARCH, Context, Job, evaluate_all, prepare, run_job
from optsmith.study._evaluate import evaluate
from optsmith.study._finding import Finding
from optsmith.study._observer import Observer
from optsmith.study._recorder import Recorder
from optsmith.study._runner import Runner
from optsmith.study._search import SIDE_BY_SIDE, search
from optsmith.study._settings import Settings, flat
from optsmith.study._study import Study
from optsmith.study._study import row as study_row
from optsmith.study._tally import Tally

__all__ = [
    "FINAL",
    "SEARCH",
    "SIDE_BY_SIDE",
    "Context",
    "Finding",
    "Job",
    "Observer",
    "Recorder",
    "Runner",
    "Settings",
    "Store",
    "Study",
    "Tally",
    "evaluate",
    "evaluate_all",
    "flat",
    "list_studies",
    "mask",
    "prepare",
    "run_job",
    "search",
    "study_row",
]
