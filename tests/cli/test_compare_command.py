"""`optsmith compare`."""

from __future__ import annotations

import csv
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from invented_studies import invent
from optsmith import StudyError
from optsmith.cli._main import cli


@pytest.fixture
def folder(tmp_path):
    for seed in range(3):
        invent(tmp_path, (0.5, 0.4, 0.3 + 0.05 * seed, 0.2), seed=seed)
    invent(tmp_path, algorithm="mct")
    return tmp_path


NAMES = ["bowl-random-0", "bowl-random-1", "bowl-random-2", "bowl-mct-0"]


def run(*arguments):
    return CliRunner().invoke(cli, ["compare", *map(str, arguments)], catch_exceptions=False)


def test_the_table_is_printed(folder):
    done = run(*NAMES, "--storage", folder)
    assert done.exit_code == 0
    lines = done.output.splitlines()
    (row,) = (line for line in lines if "random" in line)
    cells = [cell.strip() for cell in row.strip("│ ").split("│")]
    assert cells[:5] == ["random", "3", "0.2000", "0.2000", "−20 %"]  # noqa: RUF001


def test_a_study_may_be_given_by_its_journal(folder):
    done = run(folder / "bowl-mct-0.journal", folder / "bowl-random-0.journal")
    assert done.exit_code == 0
    assert "mct" in done.output


def test_a_page_has_table_and_charts_and_no_script(folder):
    path = folder / "page.html"
    done = run(*NAMES, "--storage", folder, "-o", path)
    assert str(path) in done.output.replace("\n", "")
    page = path.read_text()
    assert page.count("<svg") == 6  # two charts, each with a plot and its stretched lines
    assert "random (3 seeds: median and range)" in page
    assert "<script" not in page


def test_a_drawing_is_a_valid_file_with_a_band(folder):
    path = folder / "drawing.svg"
    run(*NAMES, "--storage", folder, "-o", path)
    root = ElementTree.fromstring(path.read_text())  # noqa: S314 - our own file
    classes = [e.get("class") for e in root.iter("{http://www.w3.org/2000/svg}path")]
    assert sorted(classes) == ["area ours", "curve ours", "curve s0"]


def test_a_table_as_csv(folder):
    path = folder / "table.csv"
    run(*NAMES, "--storage", folder, "-o", path)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [(row["group"], row["studies"]) for row in rows] == [("random", "3"), ("mct", "1")]
    assert float(rows[0]["change"]) == pytest.approx(-0.2, abs=0.005)


def test_other_files_are_refused_before_anything_is_read(tmp_path):
    done = run("missing", "-o", tmp_path / "page.pdf")
    assert done.exit_code == 2
    assert ".html, .svg or .csv" in done.output


def test_studies_of_different_tasks_are_refused(folder):
    invent(folder, task="line")
    with pytest.raises(StudyError, match="cannot be compared: their tasks are bowl and line"):
        run("bowl-mct-0", "line-random-0", "--storage", folder)


def test_nothing_to_draw(tmp_path):
    invent(tmp_path, (None,), final=False)
    with pytest.raises(StudyError, match="no accepted rule"):
        run("bowl-random-0", "--storage", tmp_path, "-o", tmp_path / "drawing.svg")
