"""Rules to start a search from, as users give them: rules, names, studies and files.

They are stored as texts, a rule or `rule @ learning rate`, so that a study does not depend on other
studies and files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from optsmith._errors import OptsmithError
from optsmith._zoo import zoo
from optsmith.optim import Baseline, exported_rule, parse_recipe
from optsmith.rules import Rule, skeleton
from optsmith.searchers import Start
from optsmith.space import Space
from optsmith.storage import Store, list_studies
from optsmith.study._attributes import SETTINGS
from optsmith.study._settings import Settings
from optsmith.study._study import Study

if TYPE_CHECKING:  # it imports this module
    from optsmith.study._prepare import Prepared

StartSource = str | Path | Rule | Study
"""What a search can start from."""

ZOO = "zoo"
"""Text that stands for all rules of the zoo."""

STUDY_RULES = 5
"""Number of rules that are taken from a study."""

RATE = " @ "
"""Separates a rule from its learning rate."""


def start_texts(sources: StartSource | Iterable[StartSource] | None, task: str) -> tuple[str, ...]:
    """Return what a search is to start from as texts.

    Args:
        sources: One or several of the things that a search can start from.
        task: Name of the search's task.

    Raises:
        OptsmithError: It is none of the things that a search can start from.
    """
    if sources is None:
        return ()
    every = [sources] if isinstance(sources, StartSource) else list(sources)
    found: list[str] = []
    for source in every:
        if isinstance(source, Study):
            found += map(start_text, study_starts(source, task))
        elif isinstance(source, StartSource):
            found.append(str(source))
        else:
            kind = type(source).__name__
            raise OptsmithError(f"a search starts from rules, studies and files, not from {kind}")
    return tuple(found)


def start_text(start: Start) -> str:
    """Return a rule and its learning rate, if it is known, as a text."""
    return str(start.rule) if start.lr is None else f"{start.rule}{RATE}{start.lr!r}"


def read_start(text: str) -> Start:
    """Return the rule of a text that names a rule, a rule of the zoo or a baseline.

    Raises:
        OptsmithError: It names none, or the learning rate is not a positive number.
    """
    body, at, rate = text.rpartition(RATE)
    body, lr = (body, _rate(rate)) if at else (text, None)
    recipe = _recipe(body.strip())
    if isinstance(recipe, Rule):
        return Start(str(recipe), recipe, lr, origin="given")
    form = recipe.as_rule()
    if form is None:
        raise OptsmithError(
            f"a search cannot start from {recipe}, which cannot be written as a rule"
        )
    scaled = None if lr is None else lr * form.scale
    return Start(str(form.rule), form.rule, scaled, origin="given")


def _recipe(text: str) -> Rule | Baseline:
    try:
        return parse_recipe(text)
    except OptsmithError:
        try:
            return Baseline.parse(text)  # without its package, such as adam+cosine
        except OptsmithError:
            pass
        raise


def _rate(text: str) -> float:
    try:
        lr = float(text)
    except ValueError:
        lr = 0.0
    if not 0 < lr < float("inf"):
        raise OptsmithError(f'the learning rate after @ must be a positive number, not "{text}"')
    return lr


def study_starts(study: Study, task: str) -> list[Start]:
    """Return the best rules of a study, of which no two differ in constants only.

    They have learning rates if it is a study of the same task.

    Raises:
        StudyError: The study has not accepted any rule.
    """
    kinds: dict[object, Start] = {}
    for finding in [study.best(), *study.best(len(study.records))]:
        lr = finding.lr if study.settings["task"] == task else None
        start = Start(finding.recipe, finding.rule, lr, origin="given")
        kinds.setdefault(skeleton(finding.rule), start)
        if len(kinds) == STUDY_RULES:
            break
    return list(kinds.values())


# --- resolving ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StartReader:
    """Finds the rules that texts stand for.

    Args:
        space: The space of the search, which the rules must be in.
        task: Name of the task.
        storage: Where studies are found by name.
    """

    space: Space
    task: str
    storage: str | Path | None = None

    def read(self, text: str) -> list[Start]:
        """Return the rules that a text stands for.

        Of the zoo and of studies, rules outside the space are left out.

        Raises:
            OptsmithError: It stands for none, or for a rule outside the space.
        """
        if text == ZOO:
            return self._inside([Start(n, e.rule) for n, e in zoo.items()], "rule of the zoo")
        try:
            start = read_start(text)
        except OptsmithError as error:
            return self._elsewhere(text, error)
        self._check(start)
        return [start]

    def _elsewhere(self, text: str, error: OptsmithError) -> list[Start]:
        """Return the rules of a study or a file."""
        if not text.strip():
            raise OptsmithError("give a rule, zoo, a study or a file to start from")
        path = Path(text).expanduser()
        if path.suffix in (".journal", ".log") and path.is_file():
            return self._of_study(path.stem, path)
        if path.is_file():
            return self._of_file(path)
        if path.is_dir():
            names = list_studies(path)
            if len(names) == 1:
                return self._of_study(names[0], path)
            there = f"there are {', '.join(names)}" if names else "there is none"
            raise OptsmithError(f"{path} is no single study: {there}")
        if text in list_studies(self.storage):
            return self._of_study(text, self.storage)
        if re.fullmatch(r"[\w./~-]+", text):  # a name or a path
            raise OptsmithError(f'"{text}" is neither a rule, a study nor a file{_hint(error)}')
        raise error

    def _of_study(self, name: str, storage: str | Path | None) -> list[Start]:
        starts = study_starts(Study.load(name, storage), self.task)
        return self._inside(starts, f"rule of the study {name}")

    def _of_file(self, path: Path) -> list[Start]:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not a text"
            raise OptsmithError(f"{path} cannot be read: {why}") from None
        if path.suffix == ".py":
            return [self._exported(path, text)]
        found = []
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip() and not line.lstrip().startswith("#"):
                try:
                    found.append(read_start(line.strip()))
                    self._check(found[-1])
                except OptsmithError as error:
                    raise OptsmithError(f"{path}, line {number}: {error}") from None
        if not found:
            raise OptsmithError(f"{path} has no rules to start from")
        return found

    def _exported(self, path: Path, text: str) -> Start:
        """Return the rule of a file that `optsmith export` wrote."""
        rule, lr = exported_rule(text)
        if not rule:
            raise OptsmithError(f"{path} is no file that `optsmith export` has written for a rule")
        start = read_start(rule)
        self._check(start)
        return replace(start, lr=lr)

    def _check(self, start: Start) -> None:
        if why := self.space.why_not(start.rule):
            raise OptsmithError(f"the search cannot start from {start.rule}: {why}")

    def _inside(self, starts: Sequence[Start], what: str) -> list[Start]:
        found = [start for start in starts if self.space.contains(start.rule)]
        if not found:
            raise OptsmithError(f"no {what} is in the space {self.space.name}")
        return found


def _hint(error: OptsmithError) -> str:
    """Return the name that may have been meant."""
    _, found, name = str(error).partition("; did you mean")
    return f"{found}{name}"


def with_starts(prepared: Prepared, storage: str | Path | None, study: str) -> Prepared:
    """Return a search with the rules that it starts from.

    A study that was given the same before keeps its rules, so that it can be resumed without the
    files and studies that they came from.

    Args:
        prepared: The search.
        storage: Its storage.
        study: Its name.

    Raises:
        OptsmithError: There is no such rule, study or file.
    """
    settings = prepared.settings
    if not settings.start_given:
        return prepared
    rules = _stored_rules(storage, study, settings.start_given)
    if rules is None:
        reader = StartReader(prepared.space, prepared.task.name, storage)
        texts = (start_text(s) for given in settings.start_given for s in reader.read(given))
        rules = tuple(dict.fromkeys(texts))
    return replace(prepared, settings=replace(settings, start_from=rules))


def _stored_rules(
    storage: str | Path | None, study: str, given: tuple[str, ...]
) -> tuple[str, ...] | None:
    """Return the rules of an existing study that was given the same; None if there is none."""
    if study not in list_studies(storage):
        return None
    with Store.open(storage, study, create=False, read_only=True) as store:
        data = store.attrs.get(SETTINGS)
    if data is None:
        return None
    stored = Settings.from_json(data, f'the attribute "{SETTINGS}" of the study {study}')
    return stored.start_from if stored.start_given == given else None
