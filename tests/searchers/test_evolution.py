"""The search by evolution, on invented scores."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from optsmith import OptsmithError, Rule, spaces
from optsmith.evaluation import Evaluation, Status
from optsmith.rules import constants
from optsmith.searchers import Evolution, Outcome, Start, generator
from optsmith.searchers._genome import Genome
from optsmith.searchers._population import Member, Population
from optsmith.testing import check_searcher

MODERN, PAPER = spaces["modern"], spaces["paper"]
STARTS = [
    Start("torch:nesterov+cosine", Rule.parse("cd*(g + 0.9*m1)"), 0.5, 0.20, 0.5),
    Start("torch:adam", Rule.parse("Adam"), 10.0, 0.30, 0.03),
    Start("torch:momentum", Rule.parse("m1"), 0.1, 0.40, 0.1),
    Start("torch:sgd", Rule.parse("g"), 0.2, 0.50, 0.2),
]
UNSCORED = [
    Start(f"torch:momentum+{i}", Rule.parse(f"mom(g, 0.8{i})"), 0.1, None, 0.1) for i in range(6)
]


def make(budget=96, seed=0, starts=STARTS, space=MODERN, direction="minimize", **options):
    searcher = Evolution(space, budget, seed, direction, Evolution.Options(**options))
    searcher.begin(starts)
    return searcher


def score(candidate):
    """Prefer short rules with constants of 0.5 and a learning rate of 0.1."""
    far = sum(abs(c.value - 0.5) for c in constants(candidate.rule))
    return 0.05 * candidate.rule.length + far + abs(math.log((candidate.lr or 0.1) / 0.1))


def accepted(candidate, value=None):
    value = score(candidate) if value is None else value
    lr = candidate.lr or 0.1
    found = Evaluation(str(candidate.rule), Status.OK, score=value, lr=lr)
    return Outcome("accepted", "", value, evaluation=found)


def drive(searcher, outcome=accepted, n=5, most=10_000):
    """Answer candidates; return them."""
    told = []
    while len(told) < most and (asked := searcher.ask(n)):
        for candidate in asked:
            searcher.tell(candidate, outcome(candidate))
            told.append(candidate)
    return told


def cost(candidates):
    return sum(c.fidelity * (1 if c.lr is not None else 3) for c in candidates)


def generations(told):
    """Return the candidates of the evolution by generation and fidelity."""
    found = {}
    for c in told:
        if c.phase.startswith("generation"):
            found.setdefault((int(c.id.partition(":")[0]), c.fidelity), []).append(c)
    return found


@pytest.mark.parametrize("options", [{}, {"rungs": "1"}, {"rungs": "0.1,0.3,1", "tuning": 0.0}])
def test_it_keeps_the_contract_with_starting_points(options):
    def with_starts(budget, seed):
        return make(budget, seed, [*STARTS, *UNSCORED], children=6, population=5, **options)

    check_searcher(with_starts)


def test_it_keeps_the_contract_with_tuned_numbers():
    check_searcher(lambda budget, seed: make(6 * budget, seed, children=6))


def test_it_improves_on_its_starting_points():
    searcher = make()
    told = drive(searcher)
    best = searcher.proposals()[0]
    value = min(score(c) for c in told if c.rule == best.rule or c.phase == "tuning")
    assert value < min(score(c) for c in told if c.id.startswith("0:"))
    assert cost(told) < 97  # the number of promoted children is rounded up
    assert 94 <= searcher.spent <= 96
    assert not searcher.ask(1)


def test_scored_starts_are_members_and_are_not_evaluated_again():
    told = drive(make())
    texts = {str(c.rule) for c in told if c.lr == 0.5}
    assert "cd*(g + 0.9*mom(g))" not in texts
    assert all(c.lr is not None for c in told)  # nothing is tuned


def test_other_starts_are_a_bounded_share_of_the_first_generations():
    told = drive(make(starts=[*STARTS, *UNSCORED]))
    first = {(0, 0.3), (1, 0.3)}
    by_generation = generations(told)
    texts = {f"mom(g, 0.8{i})" if i else "mom(g, 0.8)" for i in range(6)}
    counts = [sum(str(c.rule) in texts for c in by_generation[key]) for key in sorted(first)]
    assert counts == [4, 2]
    assert all(len(by_generation[key]) == 16 for key in first)


def test_without_scores_the_starts_come_first_then_random_rules():
    told = drive(make(starts=()), most=16)
    assert [str(c.rule) for c in told[:2]] == [
        "cd*(g + 0.9*mom(g))",
        "cd*(ema(g)/sqrt(|ema(g^2, 0.999)|))",
    ]
    assert all(c.lr is None for c in told)
    assert len({c.rule for c in told}) > 8


def test_a_tuned_learning_rate_is_kept_on_the_next_rung():
    told = drive(make(starts=(), budget=60), lambda c: accepted(c, 1.0))
    promoted = [c for c in told if c.fidelity == 1 and c.phase == "generation 1"]
    assert promoted
    assert {c.lr for c in promoted} == {0.1}


def test_the_best_of_a_rung_are_promoted_and_full_length_decides():
    found = generations(drive(make()))
    for (generation, fidelity), candidates in found.items():
        if fidelity < 1:
            best = sorted(candidates, key=score)[: math.ceil(0.3 * len(candidates))]
            assert [c.id for c in found[generation, 1.0]] == [c.id for c in best]
    searcher = make(tuning=0.0, blocks=0)
    told = drive(searcher)
    full = [c for c in told if c.fidelity == 1]
    assert searcher.proposals()[0].rule == min(full, key=score).rule


def test_nothing_is_trained_twice():
    told = drive(make(budget=200))
    seen = Counter((str(c.rule), c.lr, c.fidelity, c.block) for c in told if c.phase != "tuning")
    assert max(seen.values()) == 1


def test_a_duplicate_has_the_score_of_its_original_and_costs_nothing():
    def outcome(candidate):
        found = accepted(candidate, 0.01 if candidate.id == "0:5" else 1.0)
        if candidate.id == "0:5":
            return Outcome("duplicate", "x", found.score, evaluation=found.evaluation)
        return found

    searcher = make(tuning=0.0, blocks=0)
    told = drive(searcher, outcome)
    duplicates = [c for c in told if c.id == "0:5"]
    assert [c.fidelity for c in duplicates] == [0.3, 1.0]
    assert searcher.proposals()[0].rule == duplicates[0].rule
    assert searcher.spent == int(round(cost(told) - cost(duplicates), 9))


def test_larger_is_better_when_told_so():
    starts = [Start(s.name, s.rule, s.lr, -s.score, s.rate) for s in STARTS]
    up = make(direction="maximize", starts=starts)
    down = make()
    rules = [[(c.id, c.rule) for c in drive(s, o)] for s, o in (
        (up, lambda c: accepted(c, -score(c))),
        (down, accepted),
    )]  # fmt: skip
    assert rules[0] == rules[1]


def test_a_search_without_progress_restarts_from_the_best_and_the_starts():
    searcher = make(stagnation=32, tuning=0.0)
    told = drive(searcher, lambda c: accepted(c, 0.6))
    assert searcher.log[0] == "restart 1 after 32 children"
    assert searcher.summary()["restarts"] >= 2
    # The first four children after a restart are drawn at random.
    by_generation = generations(told)
    for generation in range(5):
        first = [c.rule for c in by_generation[generation, 0.3][:4]]
        drawn = [MODERN.sample(generator(0, generation, i)) for i in range(4)]
        assert (first == drawn) == (generation in (2, 4))


def test_the_best_are_chosen_with_other_seeds():
    def outcome(candidate):
        # What is best with the first seeds is worst with others.
        value = score(candidate)
        return accepted(candidate, -value if candidate.block else value)

    searcher = make(tuning=0.0)
    told = drive(searcher, outcome)
    again = [c for c in told if c.phase == "choice"]
    assert sorted({c.block for c in again}) == [1, 2, 3]
    assert len(again) == 12
    proposed = [p.rule for p in searcher.proposals()]
    assert proposed == sorted({c.rule for c in again}, key=lambda r: proposed.index(r))
    values = [score(next(c for c in again if c.rule == rule)) for rule in proposed]
    assert values == sorted(values, reverse=True)
    assert searcher.describe() == "scoring the best rules with other seeds"


def test_the_numbers_of_the_best_are_tuned_with_new_seeds():
    searcher = make(budget=120)
    told = drive(searcher)
    tuned = [c for c in told if c.phase == "tuning"]
    assert len(tuned) == 36  # three generations of 12 in 35 % of 120
    assert len({c.block for c in tuned}) == 3
    assert not {c.block for c in tuned} & {c.block for c in told if c.phase != "tuning"}
    first, second, *_ = searcher.proposals()
    assert searcher.log[-1].startswith("best of 8 generations: ")
    assert first.rule != second.rule
    assert all(MODERN.contains(p.rule) for p in searcher.proposals())


def test_a_space_with_fixed_numbers_is_not_tuned():
    searcher = make(space=PAPER)
    told = drive(searcher)
    assert all(PAPER.contains(c.rule) for c in told)
    assert not [c for c in told if c.phase == "tuning"]


def test_limits_hold_for_starts_and_children():
    searcher = make()
    searcher.allows = lambda rule: "ema" not in str(rule)
    told = drive(searcher)
    mutants = [c for c in told if c.phase.startswith("generation")]
    assert len(mutants) > 60
    assert not [c for c in mutants if "ema" in str(c.rule)]


def test_known_rules_are_proposed_only_if_there_are_no_others():
    searcher = make(tuning=0.0, blocks=0)
    drive(searcher, lambda c: Outcome("rejected", c.id))
    assert str(searcher.proposals()[0].rule) == "cd*(g + 0.9*mom(g))"
    searcher = make(tuning=0.0, blocks=0)
    drive(searcher, lambda c: accepted(c, 9.0))
    assert str(searcher.proposals()[0].rule) != "cd*(g + 0.9*mom(g))"


def test_an_id_is_the_same_rule_with_any_budget():
    small, large = ({c.key: c for c in drive(make(budget=b))} for b in (90, 150))
    both = small.keys() & large.keys()
    assert len(both) > 100
    assert all(small[key] == large[key] for key in both)


def test_it_says_where_it_is():
    searcher = make()
    assert searcher.describe() == "generation 1: 0 rules"
    drive(searcher, most=16)
    assert searcher.describe() == "generation 1: 4 rules"
    drive(searcher)
    assert searcher.describe() == "tuning the numbers of the best rule"
    counts = searcher.summary()["mutations"]
    assert counts["constants"]["made"] > counts["constants"]["trained"] > 0


def test_it_adapts_a_preset():
    from optsmith.task import Preset, Protocol

    preset = Preset(protocol=Protocol(proxy_steps=10, steps=10, final_steps=100), budget=8)
    found = Evolution.adapted(preset)
    protocol = found.protocol
    assert (protocol.steps, protocol.proxy_steps, protocol.score_seeds) == (100, 30, 2)
    assert (found.space, found.dedupe, found.fixed_lr, found.budget) == (
        "modern",
        "equal",
        True,
        24,
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"population": 1}, "population must be at least 2, not 1"),
        ({"children": 0}, "children must be at least 1, not 0"),
        ({"blocks": -1}, "blocks must be at least 0, not -1"),
        ({"tuning": 1.0}, "tuning must be at least 0 and below 1, not 1"),
        ({"rungs": "0.3"}, "rungs must be increasing fractions"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, says):
    with pytest.raises(OptsmithError, match=says):
        make(**options)


# --- the population -------------------------------------------------------------------------------


def member(name, loss, text="g", known=False):
    return Member(name, Genome(Rule.parse(text), 0.1), loss, known)


def test_the_oldest_leaves_even_if_it_is_the_best():
    population = Population(2)
    assert population.enter(member("a", 1.0))
    assert not population.enter(member("b", 2.0))
    assert not population.enter(member("c", 3.0))
    rng = random.Random(0)
    assert {population.tournament(1, rng).id for _ in range(30)} == {"b", "c"}
    assert population.tournament(30, rng).id == "b"
    assert [m.id for m in population.ranked] == ["a", "b", "c"]


def test_a_restart_keeps_the_best_and_the_starts():
    population = Population(3)
    for one in (member("start", 4.0, known=True), member("a", 1.0), member("b", 2.0)):
        population.enter(one)
    population.enter(member("c", 3.0))
    population.restart()
    rng = random.Random(0)
    assert {population.tournament(1, rng).id for _ in range(30)} == {"start", "a"}


def test_the_best_have_different_structures():
    population = Population(2)
    population.enter(member("start", 0.1, "m1", known=True))
    for i, text in enumerate(("0.5*g + w", "0.4*g + w", "sign(g)")):
        population.enter(member(str(i), float(i), text))
    assert [m.id for m in population.best(3)] == ["0", "2"]
    assert [m.id for m in population.best(1)] == ["0"]
