"""The beginning of a study: settings are stored, or compared with those of the study."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from optsmith._duration import show_duration
from optsmith._errors import StudyError, TaskError
from optsmith.execution import Executor
from optsmith.rules import BY_ROLE, Rule
from optsmith.storage import SCHEMA_KEY, Store
from optsmith.study._attributes import ABOUT, SETTINGS, About
from optsmith.study._context import import_all
from optsmith.study._ending import MaxCost, Patience, SmallerBudget, finish_requested
from optsmith.study._identity import check_signal, stacking_of
from optsmith.study._pace import FOUND_RULE, measure_speed, plain_share, step_ratio, time_to_measure
from optsmith.study._plan import make_plan
from optsmith.study._preflight import Preflight, knows_roles, preflight
from optsmith.study._prepare import Prepared
from optsmith.study._settings import Settings, space_hash
from optsmith.study._stop import Moment, Reason
from optsmith.study._study import Study
from optsmith.task import Preset
from optsmith.training import Stacking


@dataclass(frozen=True, kw_only=True)
class Begun:
    """A study whose settings are stored.

    Attributes:
        store: The store of the study.
        prepared: The search that was asked for.
        notes: What the user should know, one sentence each.
        settings: The settings, with the plan.
        stacking: Which runs are trained together; the same in all sessions.
        untrained: Score of an untrained model, for thresholds relative to it.
        start: Time at which this session started, by `time.monotonic`.
        outcomes: Reasons to end the search early that depend on the outcomes alone.
        moment: Other reasons to end it early.
    """

    store: Store
    prepared: Prepared
    notes: tuple[str, ...]
    settings: Settings
    stacking: Stacking
    untrained: float
    start: float
    outcomes: Sequence[Reason] = ()
    moment: Sequence[Moment] = ()

    @property
    def terms(self) -> Preset:
        """The settings of the search, with numbers for relative thresholds."""
        search = self.settings.search
        return replace(search, protocol=search.protocol.resolved(self.untrained))


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Results of the checks of a task.

    Attributes:
        task: Those of the task.
        trained: Those of the task that the search trains: its proxy, if there is one.
    """

    task: Preflight
    trained: Preflight


MOST_STARTING = 0.4
"""Share of the time within which workers must start."""

WITHOUT_ROLES = (
    "run.optimizer is given bare parameters, so hidden matrices cannot be told from the rest:"
    " run.optimizer(model) lets the search try rules such as Muon"
)


def without_roles(prepared: Prepared) -> Prepared:
    """Return the search with the operators that its task allows.

    `hidden` needs the roles of parameters, and a loop that passes bare parameters has none.
    """
    settings, space = prepared.settings, prepared.space
    trained = prepared.proxy or prepared.task
    if not any(operator.name == BY_ROLE for operator in space.operators) or knows_roles(
        trained, settings.search.protocol, settings.device
    ):
        return prepared
    smaller = space.without(BY_ROLE)
    return replace(
        prepared,
        space=smaller,
        settings=replace(settings, space_hash=space_hash(smaller)),
        notes=(*prepared.notes, WITHOUT_ROLES),
    )


def check(prepared: Prepared) -> Checked:
    """Check the task, before anything is written.

    Raises:
        OptsmithError: The task does not run, cannot be trained, or cannot be stacked as asked.
    """
    task, settings = prepared.task, prepared.settings
    protocol, device = settings.search.protocol, settings.device
    checked = preflight(task, protocol, device)
    trained = checked if prepared.proxy is None else preflight(prepared.proxy, protocol, device)
    if settings.stack is not None:
        stacking_of(task, device, settings.stack)
    return Checked(task=checked, trained=trained)


def begin(
    store: Store,
    prepared: Prepared,
    checked: Checked,
    executor: Executor,
    finish: bool,
    start: float,
    planned: Settings | None = None,
) -> Begun:
    """Store the settings, or check that they are those of the study.

    Args:
        store: The store.
        prepared: The search that was asked for.
        checked: The checks of its task.
        executor: Runs the evaluations.
        finish: Whether to end the search of an existing study now.
        start: Time at which the session started.
        planned: Settings of a new study with its plan; None: it is made here.

    Raises:
        OptsmithError: The study has other settings, or its time is too short.
    """
    task, settings = prepared.task, prepared.settings
    first_signal = checked.task.first_signal
    reasons: list[Reason] = []
    if SETTINGS in store.attrs:
        before = Study(store)  # checks all data of the study before anything is written
        stored = before.stored_settings
        if finish:
            now = {"task", "space_hash", "definitions"}
            settings = replace(stored, **{name: getattr(settings, name) for name in now})
        elif stored.max_time is not None and stored.max_time == settings.max_time:
            settings = replace(stored, asked=settings.to_json())
        settings.check_continues(before.settings, store.name)
        check_signal(first_signal, before.about["first_signal"], store.name)
        stacking = stacking_of(task, settings.device, settings.stack, before.about["stacking"])
        if settings.search.budget < stored.search.budget:
            reasons.append(SmallerBudget(settings.search.budget))
            settings = replace(settings, search=stored.search)
    else:
        # A search that was killed between two writes has left the first of two attributes.
        others = [key for key in store.attrs if key not in (SCHEMA_KEY, ABOUT)]
        if others or store.records():
            raise StudyError(
                f"the study {store.name} in {store.location} has data, but not the settings of a"
                " search: give another --study"
            )
        if finish:
            raise StudyError(f"the study {store.name} has no search that could be finished")
        stacking = stacking_of(task, settings.device, settings.stack)
        settings = planned or plan_settings(prepared, executor, start)
        about = About.of(task, first_signal, stacking, checked.trained.untrained)
        store.set_attr(ABOUT, about.to_json())
    if settings.patience is not None:
        reasons.append(Patience(settings.patience))
    if settings.max_cost is not None:
        reasons.append(MaxCost(settings.max_cost, settings.search.protocol.final_steps))
    if settings.to_json() != store.attrs.get(SETTINGS):  # new, or with a larger budget
        store.set_attr(SETTINGS, settings.to_json())
    return Begun(
        store=store,
        prepared=prepared,
        notes=(*prepared.notes, *checked.task.notes),
        settings=settings,
        stacking=stacking,
        untrained=_untrained(store, checked.trained),
        start=start,
        outcomes=reasons,
        moment=[finish_requested] if finish else [],
    )


def plan_settings(prepared: Prepared, executor: Executor, start: float) -> Settings:
    """Return the settings of the plan for a limited time; without a limit, as they are.

    Workers are waited for, so that they do not disturb the measurement, and the time that they need
    to start on a busy machine is known.

    Args:
        prepared: The search that was asked for.
        executor: Runs the evaluations.
        start: Time at which the session started.

    Raises:
        TaskError: The time is too short for any claim.
    """
    settings = prepared.settings
    if settings.max_time is None:
        return settings
    if not executor.warm_up(import_all, timeout=MOST_STARTING * settings.max_time):
        raise TaskError(
            f"{show_duration(settings.max_time)} are too short: {executor.workers} worker"
            f" process{'es' * (executor.workers != 1)} did not start within"
            f" {MOST_STARTING:.0%} of it; give more time, fewer --workers, or try again when the"
            " machine is less busy".replace("%", " %")
        )
    task, proxy, device = prepared.task, prepared.proxy, settings.device
    stacking = stacking_of(task, device, settings.stack)
    most = time_to_measure(settings.max_time)
    steps = settings.search.protocol.final_steps
    found = _found_rule(prepared)
    speed = measure_speed(task, stacking, device, steps, most, found=found)
    of_proxy = None
    if settings.proxy:
        small = proxy or task
        stacking = stacking_of(small, device, None)
        of_proxy = measure_speed(small, stacking, device, steps, most, found=found)
    plan = make_plan(
        settings.search,
        settings.max_time,
        speed,
        len(settings.opponents),
        executor.workers,
        prepared.label,
        spent=time.monotonic() - start,
        plain_share=plain_share(settings.opponents),
        proxy=of_proxy,
        fixed=prepared.fixed,
    )
    protocol = plan.settings.protocol
    ratio = step_ratio(speed, of_proxy or speed, protocol.steps, protocol.final_steps)
    return settings.planned(plan, ratio, (of_proxy or speed).rule_cost)


def _found_rule(prepared: Prepared) -> Rule | None:
    """Return a rule such as the search will find; None if its space or searcher has others."""
    fits = prepared.settings.search.fixed_lr and prepared.space.knows(FOUND_RULE)
    return FOUND_RULE if fits else None


def _untrained(store: Store, checked: Preflight) -> float:
    """Return the score of an untrained model as it was when the study was created."""
    stored = store.attrs[ABOUT]["untrained"]
    return checked.untrained if stored is None else float(stored)
