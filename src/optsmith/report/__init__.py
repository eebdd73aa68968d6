"""The report of a search: one self-contained HTML page."""

from optsmith.report._data import report_data, write_report
from optsmith.report._page import render

__all__ = ["render", "report_data", "write_report"]
