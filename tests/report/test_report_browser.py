"""The page in headless Chromium: drawn, silent, and usable by mouse and by keyboard."""

import json

import browser
import pytest
from fake_study import WINNER, beaten, mixed, study

from optsmith.report import render

CHROMIUM = browser.find()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on PATH (apt-get install chromium)"
)

EVIL = "'\"><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    running = browser.Browser(CHROMIUM, tmp_path_factory.mktemp("profile"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render(study()), encoding="utf-8")
    return path


def place(chromium, selector, number=0):
    """Scroll an element into view, and return where its middle is."""
    return chromium.evaluate(
        f"new Promise(done => {{ const e = document.querySelectorAll({json.dumps(selector)})"
        f"[{number}]; e.scrollIntoView({{block: 'center', behavior: 'instant'}});"
        # The scroll event comes with the next frame, and takes tooltips away.
        "requestAnimationFrame(() => requestAnimationFrame(() => {"
        "const r = e.getBoundingClientRect();"
        "done([r.x + r.width / 2, r.y + r.height / 2]); })); })"
    )


def tip(chromium):
    return chromium.evaluate(
        "document.getElementById('tip').hidden ? '' : document.getElementById('tip').innerText"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 768, 390])
def test_it_loads_in_silence_and_fits(chromium, page, width, scheme):
    chromium.open(page, width, scheme)
    assert chromium.complaints() == []
    assert chromium.evaluate("document.documentElement.scrollWidth") <= width
    boxes = chromium.evaluate(
        "[...document.querySelectorAll('.plot > svg')].map(s => s.getBoundingClientRect())"
        ".map(r => [r.x, r.right, r.height])"
    )
    assert len(boxes) == 4  # curves, history, length, parts of the rule
    assert all(x >= 0 and right <= width and height > 200 for x, right, height in boxes)


@pytest.mark.parametrize("made", [mixed, beaten])
def test_other_answers_load_in_silence_and_fit(chromium, tmp_path, made):
    path = tmp_path / "report.html"
    path.write_text(render(made()), encoding="utf-8")
    chromium.open(path, 390, "dark")
    assert chromium.complaints() == []
    chromium.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert chromium.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_zero_line_is_at_the_same_place_in_every_row(chromium, page):
    for width in (1280, 390):
        chromium.open(page, width)
        places = chromium.evaluate(
            "[...document.querySelectorAll('.differences .zero')]"
            ".map(e => Math.round(e.getBoundingClientRect().x))"
        )
        assert len(places) == 11
        assert len(set(places)) == 1
        assert 0 < places[0] < width


def test_marks_and_words_are_drawn_inside_the_page(chromium, page):
    for width in (1280, 390):
        chromium.open(page, width)
        sizes = chromium.evaluate(
            "[...document.querySelectorAll('.plot circle, .plot .rug, .plot path, .whisker circle')"
            "].map(e => e.getBoundingClientRect()).map(r => r.width + r.height)"
        )
        assert len(sizes) > 250
        assert min(sizes) > 0
        outside = chromium.evaluate(
            "[...document.querySelectorAll('.plot text')].filter(t => { const r ="
            "t.getBoundingClientRect(); return r.x < 0 || r.right > innerWidth })"
            ".map(t => t.textContent)"
        )
        assert outside == []


def test_the_formula_is_mathematics(chromium, page):
    chromium.open(page)
    width, height = chromium.evaluate(
        "(() => { const r = document.querySelector('.formula math mrow').getBoundingClientRect();"
        "return [r.width, r.height] })()"
    )
    assert width > 150
    assert height > 25


def test_light_and_dark(chromium, page):
    paper = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    chromium.open(page, scheme="light")
    assert min(chromium.evaluate(paper)) > 200
    chromium.click(*place(chromium, "#theme"))
    assert max(chromium.evaluate(paper)) < 60
    chromium.open(page, scheme="dark")
    assert max(chromium.evaluate(paper)) < 60
    chromium.click(*place(chromium, "#theme"))
    assert min(chromium.evaluate(paper)) > 200


@pytest.mark.parametrize("chart", ["history", "front"])
def test_a_hover_tells_which_rule_it_is(chromium, page, chart):
    chromium.open(page)
    assert tip(chromium) == ""
    record = f"#{chart}-chart circle.record"
    last = chromium.evaluate(f"document.querySelectorAll('{record}').length - 1")
    chromium.move(*place(chromium, record, last))
    assert tip(chromium).startswith(WINNER)
    assert "mean training loss 0.5603" in tip(chromium)
    chromium.move(1, 1)
    assert tip(chromium) == ""


def test_a_hover_reads_all_curves(chromium, page):
    chromium.open(page)
    chromium.move(*place(chromium, "#curves-chart .plot"))
    lines = tip(chromium).splitlines()
    assert lines[0].startswith("step ")
    assert len(lines) == 8
    assert WINNER in lines[1]


def test_arrow_keys_go_through_a_chart(chromium, page):
    chromium.open(page)
    chromium.evaluate("document.querySelector('#history-chart .plot').focus()")
    place(chromium, "#history-chart .plot")
    seen = []
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "End"):
        chromium.press(key)
        seen.append(tip(chromium).splitlines()[-1])
    count = len(study()["history"])
    numbers = [int(line.removeprefix("evaluation ").split(",")[0]) for line in seen]
    assert numbers == [1, 2, 1, count]
    chromium.press("Escape")
    assert tip(chromium) == ""


def test_a_click_on_the_tree_shows_the_node(chromium, page):
    chromium.open(page)
    detail = "document.getElementById('tree-detail').innerText"
    assert "Select a child" in chromium.evaluate(detail)
    chromium.click(*place(chromium, ".level .child", 3))
    child = "document.querySelectorAll('.level .child')[3]"
    assert chromium.evaluate(f"{child}.getAttribute('aria-pressed')") == "true"
    node, facts = chromium.evaluate(detail).splitlines()
    assert node == chromium.evaluate(f"{child}.dataset.node")
    assert "mean training loss" in facts
    assert "sample" in facts


def test_the_keyboard_walks_the_tree(chromium, page):
    chromium.open(page)
    detail = "document.getElementById('tree-detail').innerText.split('\\n')[0]"
    levels = "[...document.querySelectorAll('.level')].map(l => [...l.querySelectorAll('.child')])"
    here = f"{levels}.map(children => children.indexOf(document.activeElement))"
    stops = f"{levels}.map(children => children.filter(child => child.tabIndex === 0).length)"
    assert chromium.evaluate(stops) == [1, 1, 1, 1]
    chromium.evaluate("document.querySelector('.level .chosen').focus()")
    row = chromium.evaluate(here)[0]
    chromium.press("ArrowDown")
    assert chromium.evaluate(here)[0] == row + 1
    chromium.press("ArrowRight")
    assert chromium.evaluate(here)[:2] == [-1, row + 1]
    shown = chromium.evaluate("document.activeElement.dataset.node")
    assert chromium.evaluate(detail) == shown
    assert chromium.evaluate(stops) == [1, 1, 1, 1]
    chromium.press("Tab")
    assert chromium.evaluate(here)[2] >= 0  # the next level, not the next child
    outline = chromium.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_the_copy_button_answers(chromium, page):
    chromium.open(page)
    chromium.click(*place(chromium, ".copy button"))
    words = chromium.evaluate(
        "new Promise(done => setTimeout(() => done("
        "document.querySelector('.copy button').textContent), 50))"
    )
    assert words in ("Copied", "Selected")


def test_tables_scroll_inside_themselves(chromium, page):
    chromium.open(page, 390)
    inside, outside = chromium.evaluate(
        "(() => { const e = document.querySelector('#final .scroll');"
        "return [e.scrollWidth, e.clientWidth] })()"
    )
    assert inside > outside


def test_evil_data_runs_nothing(chromium, tmp_path):
    data = study()
    data["title"] = data["task"]["description"] = data["verdict"] = EVIL
    data["winner"] |= {"rule": EVIL, "simplified": EVIL + "2"}
    for entry in data["history"]:
        entry["rule"] = EVIL
    for row in data["final"]["rows"]:
        row |= {"label": EVIL, "error": EVIL}
    data["tree"][0]["children"][0] |= {"node": EVIL, "operator": EVIL}
    path = tmp_path / "evil.html"
    path.write_text(render(data), encoding="utf-8")
    chromium.open(path, 390)
    chromium.move(*place(chromium, "#history-chart circle.record"))
    chromium.move(*place(chromium, "#curves-chart .plot"))
    assert EVIL.strip() in tip(chromium)
    assert chromium.complaints() == []
    assert chromium.evaluate("'hacked' in window") is False
    assert chromium.evaluate("document.documentElement.scrollWidth") <= 390


def test_it_is_complete_without_scripts(chromium, page):
    chromium.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        chromium.open(page)
        root = chromium.send("DOM.getDocument")["root"]["nodeId"]
        find = {"nodeId": root}
        plots = chromium.send("DOM.querySelectorAll", selector=".plot > svg", **find)["nodeIds"]
        for plot in plots:
            model = chromium.send("DOM.getBoxModel", nodeId=plot)["model"]
            assert min(model["width"], model["height"]) > 200
        titles = chromium.send("DOM.querySelectorAll", selector="circle > title", **find)["nodeIds"]
        assert len(titles) > 250
    finally:
        chromium.send("Emulation.setScriptExecutionDisabled", value=False)
