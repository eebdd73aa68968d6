"""The report of a search: one self-contained HTML page, and the claim card."""

from optsmith.report._answer import changes, claim_data, opponent_of
from optsmith.report._command import study_arguments
from optsmith.report._data import card, report_data, threshold_of, write_report
from optsmith.report._evidence import change_text, interval_text
from optsmith.report._notebook import comparison_html, finding_html, study_html
from optsmith.report._page import render
from optsmith.report._plot import plot_studies, plot_study
from optsmith.report._studies import (
    studies_file,
    studies_html,
    studies_page,
    table_cells,
    table_heads,
)

__all__ = [
    "card",
    "change_text",
    "changes",
    "claim_data",
    "comparison_html",
    "finding_html",
    "interval_text",
    "opponent_of",
    "plot_studies",
    "plot_study",
    "render",
    "report_data",
    "studies_file",
    "studies_html",
    "studies_page",
    "study_arguments",
    "study_html",
    "table_cells",
    "table_heads",
    "threshold_of",
    "write_report",
]
