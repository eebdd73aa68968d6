"""What a store promises wherever it keeps a study: journal and SQLite (PostgreSQL: own file)."""

from __future__ import annotations

import logging
import math
import random
import threading
from pathlib import Path

import optuna
import pytest
from store_samples import large_data, sample, varied

from optsmith._errors import StudyError
from optsmith.storage._mark import SCHEMA
from optsmith.storage._store import Record, Store, list_studies


@pytest.fixture(params=["directory", "file", "sqlite"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    places: dict[str, str | Path] = {
        "directory": tmp_path / "deep" / "studies",
        "file": str(tmp_path / "all.log"),
        "sqlite": f"sqlite:///{tmp_path}/studies.db",
    }
    return places[request.param]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_records_come_back_in_the_order_of_writing(storage):
    records = varied(10)
    shuffled = random.Random(0).sample(records, len(records))
    with Store.open(storage, "first", direction="minimize") as store:
        for record in shuffled:
            store.add(record)
        assert store.records() == shuffled
    with Store.open(storage, "first", direction="minimize", create=False) as store:
        assert store.records() == shuffled
        store.add(sample(99))
    with Store.open(storage, "first", read_only=True) as store:
        assert len(store.records()) == 11
        assert store.direction == "minimize"


def test_a_record_is_one_trial_that_optuna_understands(storage):
    with Store.open(storage, "trial", direction="maximize") as store:
        store.add(sample(3, level=2, fidelity=0.3, block=1, fixed_lr=0.01))
        store.add(sample(4, state="pruned", score=0.25))
        store.add(sample(5, state="failed", score=None))
        store.flush()
        best, pruned, failed = store._study.get_trials()
        assert store._study.best_trial == best
    assert [best.state.name, pruned.state.name, failed.state.name] == ["COMPLETE", "PRUNED", "FAIL"]
    assert best.params == {"lr": 0.1 / 4, "length": 8}
    asked = {"candidate": "2:3", "fidelity": 0.3, "block": 1, "fixed_lr": 0.01, "phase": "level 3"}
    assert best.user_attrs.items() >= asked.items()
    assert best.user_attrs["rule"] == "ld*sign(m1) - 4*g"
    assert best.user_attrs["evaluation"]["grid"] == [{"lr": 0.1, "score": 1 / 3}]
    assert best.value == 0.25
    assert best.intermediate_values[90] == 2.0 / 94
    assert best.duration is not None
    assert best.duration.total_seconds() == pytest.approx(1.5, abs=1e-3)


def test_the_last_of_the_same_candidate_and_fidelity_counts(storage):
    with Store.open(storage, "twice") as store:
        for record in (sample(1, score=0.5), sample(0), sample(1, score=0.1)):
            store.add(record)
        store.add(sample(1, fidelity=0.3, score=7.0))
        assert [(r.candidate, r.fidelity, r.score) for r in store.records()] == [
            ("0:1", 1.0, 0.1),
            ("0:0", 1.0, 1.0),
            ("0:1", 0.3, 7.0),
        ]


def test_a_score_that_is_not_finite_is_not_complete(storage):
    with Store.open(storage, "odd") as store:
        for level, score in enumerate([math.nan, math.inf, -math.inf, None]):
            store.add(sample(0, level=level, score=score))
            store.add(sample(1, level=level, score=score, state="pruned"))
        read = [(record.state, record.score) for record in store.records()]
    assert read == 4 * [("failed", None), ("pruned", None)]


def test_numbers_beyond_what_a_plot_shows_come_back_too(storage):
    odd = [sample(0, lr=1e-20, length=5000), sample(1, lr=1e30), sample(2, lr=1e-12, length=1000)]
    with Store.open(storage, "beyond") as store:
        for record in odd:
            store.add(record)
        assert store.records() == odd


def test_curves_are_thinned_and_finite(storage):
    curve = tuple((step, math.nan if step == 500 else step / 7) for step in range(1001))
    short = ((0, 1.0), (5, math.inf), (9, 0.5))
    with Store.open(storage, "curves") as store:
        store.add(sample(0, curve=curve))
        store.add(sample(1, curve=short))
        long, rest = (record.curve for record in store.records())
    assert len(long) == 20
    assert long[0] == (0, 0.0)
    assert long[-1] == (1000, 1000 / 7)
    assert all(value == step / 7 for step, value in long)
    assert rest == ((0, 1.0), (9, 0.5))


def test_large_and_odd_data(storage):
    with Store.open(storage, "large") as store:
        store.add(sample(0, data=large_data()))
        store.add(sample(1, data={"x": [math.nan, {"y": -math.inf}], "z": (1, 2)}))
    with Store.open(storage, "large", read_only=True) as store:
        large, odd = store.records()
    assert large.data == large_data()
    assert odd.data == {"x": [None, {"y": None}], "z": [1, 2]}


def test_data_is_taken_when_added(storage):
    data = {"status": "ok", "list": [1]}
    with Store.open(storage, "copy") as store:
        record = sample(0, data=data)
        store.add(record)
        data["list"].append(2)  # type: ignore[attr-defined]
        assert store.records()[0].data["list"] == [1]


def test_what_json_cannot_hold_is_refused_and_ends_nothing(storage):
    with Store.open(storage, "json") as store:
        with pytest.raises(StudyError, match=r"the evaluation of candidate 0:0 cannot .* JSON"):
            store.add(sample(0, data={"x": object()}))
        with pytest.raises(StudyError, match='the attribute "x" cannot be written as JSON'):
            store.set_attr("x", {1, 2})
        store.add(sample(1))
        assert len(store.records()) == 1


def test_attributes(storage):
    with Store.open(storage, "attributes") as store:
        assert store.attrs == {"optsmith:schema": SCHEMA}
        store.set_attr("settings", {"seed": 1, "spread": math.nan})
        store.set_attr("settings", {"seed": 2, "spread": math.nan})
        store.attrs["settings"] = "a copy"
    with Store.open(storage, "attributes", read_only=True) as store:
        assert store.attrs == {"optsmith:schema": SCHEMA, "settings": {"seed": 2, "spread": None}}


def test_an_attribute_is_written_after_the_records_before_it(storage, monkeypatch):
    with Store.open(storage, "order") as store:
        add, begun, order = store._study.add_trial, threading.Event(), []

        def slow(trial: optuna.trial.FrozenTrial) -> None:
            begun.wait()
            add(trial)
            order.append("record")

        monkeypatch.setattr(store._study, "add_trial", slow)
        store.add(sample(0))
        threading.Timer(0.05, begun.set).start()
        store.set_attr("summary", 1)
        order.append("attribute")
    assert order == ["record", "attribute"]


def test_adding_does_not_wait_for_the_disk(storage, monkeypatch):
    with Store.open(storage, "queue") as store:
        add, go = store._study.add_trial, threading.Event()
        monkeypatch.setattr(store._study, "add_trial", lambda trial: (go.wait(), add(trial)))
        for i in range(10):
            store.add(sample(i))  # would never return if it waited
        go.set()
        assert [r.candidate for r in store.records()] == [f"0:{i}" for i in range(10)]


def test_missing_studies_are_named_and_nothing_is_made(storage, tmp_path):
    def files() -> list[Path]:
        return sorted(path for path in tmp_path.rglob("*") if "cache" not in path.parts)

    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(StudyError, match=r'no study "x" in .*: there is none$'):
            Store.open(storage, "x", **options)
    assert list_studies(storage) == []
    assert files() == []
    for name in ("beta", "alpha"):
        Store.open(storage, name).close()
    before = files()
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(StudyError, match=r'no study "x" in .*: there are alpha, beta$'):
            Store.open(storage, "x", **options)
    assert list_studies(storage) == ["alpha", "beta"]
    assert [path for path in files() if ".x." not in path.name] == before


def test_reading_changes_nothing(storage, tmp_path):
    with Store.open(storage, "read") as store:
        for record in varied(5):
            store.add(record)
        store.flush()
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        with Store.open(storage, "read", read_only=True) as reader:
            assert reader.records() == store.records()
            with pytest.raises(StudyError, match="reading only"):
                reader.add(sample(9))
            with pytest.raises(StudyError, match="reading only"):
                reader.set_attr("x", 1)
        assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_a_reader_sees_what_is_added_later(storage):
    with Store.open(storage, "live") as store, Store.open(storage, "live", read_only=True) as look:
        for i in range(4):
            assert len(look.records()) == i
            store.add(sample(i))
            store.flush()


def test_old_records_are_seen_after_a_new_one(storage):
    with Store.open(storage, "old") as store:
        store.add(sample(0))
        store.add(sample(1))
    with Store.open(storage, "old") as store:
        store.add(sample(2))
        assert len(store.records()) == 3


def test_directions_must_agree(storage):
    Store.open(storage, "way", direction="maximize").close()
    with pytest.raises(StudyError, match="is set to maximize scores, not to minimize them"):
        Store.open(storage, "way", direction="minimize")
    with Store.open(storage, "way") as store:
        assert store.direction == "maximize"


def test_a_newer_schema_is_refused(storage):
    with Store.open(storage, "newer") as store:
        store.set_attr("optsmith:schema", SCHEMA + 1)
    says = rf"newer Optsmith \(schema {SCHEMA + 1}, here {SCHEMA}\)"
    for options in ({}, {"read_only": True}):
        with pytest.raises(StudyError, match=says):
            Store.open(storage, "newer", **options)


def test_a_closed_store_says_so(storage):
    store = Store.open(storage, "closed")
    store.close()
    store.close()
    for call in (store.records, store.flush, lambda: store.add(sample(0)), lambda: store.attrs):
        with pytest.raises(StudyError, match="is closed"):
            call()


def test_an_error_in_the_block_is_not_hidden(storage):
    def interrupted() -> None:
        with Store.open(storage, "block") as store:
            store.add(sample(0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with Store.open(storage, "block", read_only=True) as store:
        assert len(store.records()) == 1


def test_optuna_keeps_quiet_and_its_verbosity_stays(storage):
    notices: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = notices.append  # type: ignore[method-assign]
    level = optuna.logging.get_verbosity()
    logging.getLogger("optuna").addHandler(handler)
    try:
        for _ in range(2):
            with Store.open(storage, "quiet") as store:
                store.add(sample(0))
        list_studies(storage)
        assert notices == []
        assert optuna.logging.get_verbosity() == level
        optuna.create_study()
        assert len(notices) == 1  # which is what would have been seen
    finally:
        logging.getLogger("optuna").removeHandler(handler)


def test_the_default_is_a_directory_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Store.open(None, "mine") as store:
        assert store.location == str(Path("optsmith-studies") / "mine.journal")
        assert repr(store) == f"Store('mine', {store.location!r})"
    assert (tmp_path / "optsmith-studies" / "mine.journal").is_file()
    assert list_studies(None) == ["mine"]


@pytest.mark.parametrize(
    "name", ["", "  ", "a/b", "a\\b", "..", ".hidden", "a\nb", "a\x00b", "\udc80", "x" * 201]
)
def test_names_that_cannot_be(tmp_path, name):
    with pytest.raises(StudyError, match="study"):
        Store.open(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_names_that_can_be(storage):
    for name in ("run 2: π", "x" * 200, "mnistnet-2layer_paper.1"):
        Store.open(storage, name).close()
        with Store.open(storage, name, create=False) as store:
            assert store.name == name


def test_records_are_plain_values():
    assert sample(1) == sample(1)
    with pytest.raises(AttributeError):
        sample(1).score = 2.0  # type: ignore[misc]
    assert isinstance(sample(1), Record)
