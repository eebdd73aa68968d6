"""The search by mixtures."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from optsmith import Rule, spaces
from optsmith.evaluation import Evaluation, Status
from optsmith.rules import constants, depends_on_role, skeleton
from optsmith.screening import Screen
from optsmith.searchers import Mixture, Outcome, Start
from optsmith.searchers._dictionary import folded, mixture_of
from optsmith.searchers._directions import BEST, EFFORTS
from optsmith.searchers._start import split_decay, with_averages
from optsmith.searchers._treatment import BALANCES, BLOCKS, COST, Orthogonal, without_common_factor

MODERN = spaces["modern"]
STARTS = [
    Start("torch:nesterov+cosine", Rule.parse("cd*(g + 0.9*m1)"), 0.5, 0.2, 0.5),
    Start("torch:adam", Rule.parse("Adam"), 10.0, 0.3, 0.03),
    Start("torch:momentum", Rule.parse("m1"), None, None, 0.1),
]


def drive(searcher, score, most=10_000):
    """Answer all candidates; return them."""
    told = []
    while len(told) < most and (asked := searcher.ask(5)):
        for candidate in asked:
            value = score(candidate)
            found = Evaluation(str(candidate.rule), Status.OK, score=value, lr=candidate.lr or 0.1)
            searcher.tell(candidate, Outcome("accepted", "", value, evaluation=found))
            told.append(candidate)
    return told


def test_it_starts_from_the_best_known_rule_with_new_terms_at_zero():
    rule, weights = mixture_of(STARTS[0].rule, 0.5, STARTS, MODERN)
    assert str(rule).startswith("1*(cd^1.0001*(g + 0.9*mom(g) + 0*mom(g, 0.99)")
    known = constants(rule)
    assert {known[i].value for i in weights} == {0.0}
    # Adam's rate tells the size of what is normalised, momentum's that of gradients.
    assert sorted(weights.values()) == pytest.approx([0.018, 0.02, 0.06, 0.06])


def test_what_exceeds_the_limits_of_a_search_is_neither_start_nor_term():
    screen = Screen(max_state_bytes=4)
    searcher = Mixture(MODERN, 64)
    searcher.allows = lambda rule: not screen.exceeded(rule)
    searcher.begin([replace(STARTS[1], score=0.1), *STARTS])
    told = drive(searcher, lambda candidate: 1.0)
    assert all(screen.exceeded(c.rule) == "" for c in told)
    assert "mixtures around torch:nesterov+cosine" in searcher.log[0]
    assert any("sign(mom(g" in str(c.rule) for c in told)  # it shares the momentum
    (proposal,) = searcher.proposals()
    assert screen.exceeded(proposal.rule) == ""


def test_without_a_start_within_the_limits_the_others_are_ranked():
    searcher = Mixture(MODERN, 64)
    searcher.allows = lambda rule: rule == STARTS[2].rule
    searcher.begin(STARTS)
    assert [c.rule for c in searcher.ask(4)] == [STARTS[2].rule]
    none = Mixture(MODERN, 64)
    none.allows = lambda rule: False
    none.begin(STARTS)
    assert none.ask(4) == []
    assert none.proposals() == []
    assert none.log == ["no starting point could be trained within the limits of the search"]


MUON = Start(
    "torch:muon+cosine",
    Rule.parse("cd*(hidden(0.2*fan*orth(g + 0.95*mom(g, 0.95)), Adam) + 0.01*w)"),
    0.1,
    0.1,
    0.1,
)


def test_a_rule_for_roles_gets_terms_outside_of_hidden_matrices():
    rule, weights = mixture_of(MUON.rule, 0.1, STARTS, MODERN)
    assert depends_on_role(rule)
    momentum = "g + 0.95*mom(g, 0.95)"
    assert f"hidden(0.2*fan*orth({momentum}), " in str(rule)
    assert f"ema(g^2, 0.999)|)) + 0*(fan*orth({momentum})) + 0*rows({momentum}))" in str(rule)
    known = constants(rule)
    assert {known[i].value for i in weights} == {0.0}
    assert list(weights.values()) == [0.4, 0.4]  # relative to the size of hidden matrices


@pytest.mark.parametrize("limit", ["the space", "the limits"])
def test_terms_outside_of_hidden_matrices_are_within(limit):
    space = MODERN.without("rows") if limit == "the space" else MODERN

    def allows(rule):
        return limit == "the space" or "rows" not in str(rule)

    rule, weights = mixture_of(MUON.rule, 0.1, STARTS, space, allows)
    assert "rows" not in str(rule)
    assert len(weights) == 1


def test_an_orthogonalised_treatment_has_terms_on_both_levels():
    rule, weights = mixture_of(STARTS[0].rule, 0.5, STARTS, MODERN, treatment=Orthogonal(0.06))
    known = constants(rule)
    assert {known[i].value for i in weights} == {0.0}
    assert list(weights.values()) == pytest.approx([0.02, 0.018, 0.06, 0.06, 0.12, 0.12])


def test_directions_are_compared_in_short_runs_then_the_best_in_full_runs():
    searcher = Mixture(MODERN, 200, seed=0)
    searcher.begin([*STARTS, MUON])

    def score(candidate):
        return 0.5 if "whiten(orth(" in str(candidate.rule) else 1.0

    told = drive(searcher, score)
    compared = [c for c in told if c.phase == "directions"]
    short = [c for c in compared if c.fidelity < 1]
    full = [c for c in compared if c.fidelity == 1]
    before = told[: told.index(short[0])]
    assert len(before) == 48  # the start is tuned first
    assert all("fan*orth(g + " in str(c.rule) for c in [*before, full[0]])  # what is known, too
    assert {c.lr for c in short} == {0.1}
    # The combination of the best is among the best already.
    assert len({c.rule for c in full}) == 1 + BEST * len(EFFORTS[0].second)
    assert not {c.block for c in short} & {c.block for c in full}
    tuned = told[told.index(full[-1]) + 1 :]
    assert tuned
    assert all("whiten(orth(" in str(c.rule) for c in tuned)
    assert 184 < sum(c.fidelity for c in told) <= 200
    blocks = [c.block for c in told if c not in compared]
    assert blocks == sorted(blocks)
    assert len(set(blocks)) == len(blocks) / 16  # seeds of its own for each generation
    assert "whiten(orth(" in str(searcher.proposals()[0].rule)


def test_few_candidates_are_not_spent_on_directions():
    searcher = Mixture(MODERN, 40, seed=0)
    searcher.begin([*STARTS, MUON])
    told = drive(searcher, lambda _: 1.0)
    assert len(told) == 40
    assert all(c.phase.startswith("generation") for c in told)


def test_comparisons_of_directions_are_announced_until_they_are_over():
    searcher, left = Mixture(MODERN, 200, seed=0), []
    searcher.begin([*STARTS, MUON])

    def score(candidate):
        left.append((searcher.varied_left, candidate.varied))
        return 1.0

    told = drive(searcher, score)
    cost = sum(candidate.fidelity for candidate in told if candidate.varied)
    assert all(candidate.varied == (candidate.phase == "directions") for candidate in told)
    assert all(0 < ahead <= 2 * cost for ahead, varied in left if varied)
    assert left[0][0] >= cost
    assert searcher.varied_left == 0


def test_a_space_without_an_operator_has_no_terms_with_it():
    rule, _ = mixture_of(STARTS[0].rule, 0.5, STARTS, MODERN.without("ema"))
    assert "ema" not in str(rule)


def test_it_improves_on_its_start_and_proposes_the_centre():
    searcher = Mixture(MODERN, 160, seed=0)  # too few to compare treatments of roles
    searcher.begin(STARTS)

    def score(candidate):
        return sum((c.value - 0.5) ** 2 for c in constants(candidate.rule))

    told = drive(searcher, score)
    assert len(told) == 160
    assert {c.lr for c in told} == {0.5}
    generations = [c for c in told if c.phase.startswith("generation")]
    assert len({skeleton(c.rule) for c in generations}) == 1
    blocks = [c.block for c in generations]
    assert blocks == sorted(blocks)
    assert len(set(blocks)) == 10  # every generation has seeds of its own
    scores = [score(c) for c in generations]
    assert sum(scores[-16:]) < sum(scores[:16])
    (proposal,) = searcher.proposals()
    first = folded(generations[0].rule, 0.5)  # without the factor that is tuned as the rate
    assert skeleton(proposal.rule) == skeleton(first.rule)


def test_without_scores_starting_points_are_ranked_first():
    searcher = Mixture(MODERN, 40, seed=0)
    searcher.begin([])
    told = drive(searcher, lambda c: 0.1 if "ema" in str(c.rule) else 0.2)
    starts = [c for c in told if c.phase == "starting points"]
    assert [c.fidelity for c in starts] == [0.3, 0.3]
    assert "adam" in searcher.log[0]


def test_rules_of_the_user_are_ranked_beside_the_opponents():
    searcher = Mixture(MODERN, 40, seed=0)
    zoo = Start("lion", Rule.parse("sign(m1(0.99) + 10*g)"), origin="zoo")
    tuned = Start("mine", Rule.parse("ld*(g + sm1)"), origin="given")
    fixed = Start("too", Rule.parse("cd*(g + sm1)"), 0.3, origin="given")
    searcher.begin([tuned, fixed, *STARTS, zoo])
    told = drive(searcher, lambda c: 0.1 if "sm1" in str(c.rule) and c.lr else 0.5)
    starts = [c for c in told if c.phase == "starting points"]
    # As the opponents were evaluated, at full length; those without scores have lost already.
    assert [(str(c.rule), c.fidelity, c.lr) for c in starts] == [
        ("ld*(g + sm1)", 1.0, None),
        ("cd*(g + sm1)", 1.0, 0.3),
    ]
    assert searcher.log[0].startswith("mixtures around too: ")
    assert {c.lr for c in told[2:]} == {0.3}


def test_rules_of_the_user_alone_are_ranked_beside_two_known_ones():
    """Whose learning rates tell the size of new terms."""
    searcher = Mixture(MODERN, 40, seed=0)
    searcher.begin([Start("mine", Rule.parse("ld*(g + sm1)"), origin="given")])
    told = drive(searcher, lambda c: 0.1 if "sm1" in str(c.rule) else 0.5)
    assert [c.fidelity for c in told if c.phase == "starting points"] == [0.3, 0.3, 0.3]
    assert "around mine: " in searcher.log[0]
    assert " 0 new terms" not in searcher.log[0]


def test_the_best_balance_of_roles_is_where_the_first_generation_starts():
    searcher = Mixture(MODERN, 200, seed=0)
    searcher.begin(STARTS)

    def score(candidate):
        """Wants hidden matrices to have a quarter of the updates."""
        if "orth" in str(candidate.rule):
            return 9.0
        at = next(i for i, o in enumerate(candidate.rule.operators) if o.name == "hidden")
        hidden, rest = (float(candidate.rule.operators[at + k].torch()) for k in (1, 2))
        return abs(math.log(4 * hidden / rest)) + abs(math.log(rest))

    told = drive(searcher, score)
    compared = [c for c in told if c.phase == "roles"]
    assert len(compared) == COST > len(BALANCES) * BLOCKS
    assert len({c.block for c in compared}) == BLOCKS
    first = [score(c) for c in told if c.phase == "generation 1"]
    assert sum(first) / len(first) < score(compared[0])
    (proposal,) = searcher.proposals()
    assert "hidden(0.2" in str(proposal.rule)
    assert ", 1)*" in str(proposal.rule)  # the common factor is part of the learning rate


def test_a_rule_that_is_better_with_orthogonalised_updates_becomes_one_for_roles():
    searcher = Mixture(MODERN, 200, seed=0)
    searcher.begin(STARTS)
    told = drive(searcher, lambda c: 0.5 if "fan*orth(" in str(c.rule) else 1.0)
    assert not any(" 0 new terms" in line for line in searcher.log)  # those of the rest
    assert any(c.phase == "directions" for c in told)
    (proposal,) = searcher.proposals()
    assert "fan*orth(g + " in str(proposal.rule)
    assert "cd" in str(proposal.rule)


def test_orthogonalised_updates_within_the_limits_and_the_space():
    for space, allows in (
        (MODERN.without("orth"), lambda rule: True),
        (MODERN, lambda rule: "orth" not in str(rule)),
    ):
        searcher = Mixture(space, 200, seed=0)
        searcher.allows = allows
        searcher.begin(STARTS)
        told = drive(searcher, lambda c: 1.0)
        assert any(c.phase == "roles" for c in told)
        assert not any("orth" in str(c.rule) for c in told)


def test_roles_are_treated_alike_without_the_operator_or_the_budget():
    for space, budget in ((MODERN.without("hidden"), 200), (MODERN, 40)):
        searcher = Mixture(space, budget, seed=0)
        searcher.begin(STARTS)
        assert not any(depends_on_role(c.rule) for c in drive(searcher, lambda c: 1.0))


def test_a_balance_that_is_not_a_factor_of_the_whole_is_left_alone():
    rule = Rule.parse("g + hidden(0.5, 2)*m1")
    assert without_common_factor(rule, 0.1).rule == rule
    proposal = without_common_factor(Rule.parse("cd*(hidden(0.5, 2)*g)"), 0.1)
    assert (str(proposal.rule), proposal.lr) == ("cd*(hidden(0.25, 1)*g)", 0.2)


def test_the_factor_in_front_is_part_of_the_learning_rate():
    proposal = folded(Rule.parse("0.5*(cd*g)"), 0.2)
    assert (str(proposal.rule), proposal.lr) == ("cd*g", 0.1)


def test_steps_of_adam_are_written_as_averages():
    assert str(with_averages(Rule.parse("ld*Adam - sm1"))) == (
        "ld*(0.003*(ema(g)/sqrt(|ema(g^2, 0.999)|))) - sign(mom(g))"
    )
    decay, rest = split_decay(Rule.parse("cd*(g + m1)"))
    assert (str(decay), str(rest)) == ("cd", "g + m1")
