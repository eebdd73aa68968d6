"""Mutations: what each of them changes, and that all results are in the space."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from optsmith import Rule, Space, operators, spaces
from optsmith.rules import constants, skeleton, subrule
from optsmith.searchers import Start
from optsmith.searchers._dictionary import DICTIONARY
from optsmith.searchers._genome import Genome, genome_of, normal, split_schedule
from optsmith.searchers._mutations import LEAST_WEIGHT, MUTATIONS, Mutator
from optsmith.searchers._update_size import UpdateSize

MODERN, PAPER = spaces["modern"], spaces["paper"]
STARTS = [
    Start("torch:nesterov+cosine", Rule.parse("cd*(g + 0.9*m1)"), 0.5, 0.2, 0.5),
    Start("torch:adam", Rule.parse("Adam"), 10.0, 0.3, 0.03),
    Start("torch:momentum", Rule.parse("m1"), 0.1, None, 0.1),
]
NESTEROV = Genome(Rule.parse("cd*(g + 0.9*mom(g))"), 0.5)
ADAM = Genome(Rule.parse("ema(g)/sqrt(ema(g^2, 0.999))"), 0.03)
MUON = Genome(Rule.parse("cd*(hidden(0.2*fan*orth(mom(g)), ema(g)) + 0.01*w)"), 0.02)


def mutator(space=MODERN):
    known = [g for s in STARTS if (g := genome_of(s, space)) is not None]
    return Mutator(space, STARTS, UpdateSize(known))


def results(name, parent=NESTEROV, mate=ADAM, space=MODERN, count=60):
    """Apply a mutation many times; return what it gave."""
    one = mutator(space)
    found = (one.apply(name, parent, mate, random.Random(i)) for i in range(count))
    return [genome for genome in found if genome is not None]


def parts(rule):
    return {subrule(rule, i) for i in range(rule.length)}


@pytest.mark.parametrize("name", MUTATIONS)
def test_results_are_in_the_space_and_depend_on_the_gradient(name):
    pairs = ((NESTEROV, ADAM), (ADAM, MUON), (MUON, NESTEROV))
    found = [genome for parent, mate in pairs for genome in results(name, parent, mate)]
    assert len(found) > 30
    for genome in found:
        assert MODERN.contains(genome.rule)
        assert genome.rule.uses("gradient")
        assert 0 < genome.lr < math.inf
        assert Rule.parse(str(genome.rule)) == genome.rule


def test_a_space_with_fixed_numbers_is_not_left():
    one = mutator(PAPER)
    parent = Genome(Rule.parse("cd*(g + m1)"), 0.1)
    made = [one.mutant(parent, parent, random.Random(i)) for i in range(60)]
    genomes = [m.genome for m in made if m is not None]
    assert len({g.rule for g in genomes}) > 20
    assert all(PAPER.contains(g.rule) for g in genomes)


def test_insert_applies_an_operator_and_hoist_takes_one_away():
    assert all(g.rule.length > NESTEROV.rule.length for g in results("insert"))
    assert all(g.rule.length < NESTEROV.rule.length for g in results("hoist"))


def test_delete_leaves_out_a_part():
    texts = {str(g.rule) for g in results("delete")}
    assert {"g + 0.9*mom(g)", "cd*g"} <= texts
    assert all(len(t) < len(str(NESTEROV.rule)) for t in texts)


def test_swap_keeps_the_operators():
    parent = Genome(Rule.parse("cd*sign(g) + 0.5*m1"), 1.0)
    found = results("swap", parent)
    assert len({g.rule for g in found}) > 3
    assert all(Counter(g.rule.operators) == Counter(parent.rule.operators) for g in found)


def test_replace_changes_one_place():
    lengths = {g.rule.length - NESTEROV.rule.length for g in results("replace")}
    assert 0 in lengths
    assert max(lengths) <= 5


def test_crossover_takes_a_part_of_the_mate():
    own, other = parts(NESTEROV.rule), parts(ADAM.rule)
    found = results("crossover")
    assert any(
        part.length > 2 and part in other - own for genome in found for part in parts(genome.rule)
    )


def test_blend_adds_the_mate_at_its_own_learning_rate():
    for genome in results("blend"):
        schedule, body = split_schedule(genome.rule)
        assert str(schedule) == "cd"
        weights = [c.value for c in constants(body)]
        assert ADAM.rule in parts(body)
        assert any(LEAST_WEIGHT <= w * genome.lr / ADAM.lr <= 1.01 for w in weights)


@pytest.mark.parametrize(("parent", "at"), [(NESTEROV, "cd*("), (MUON, "cd*(hidden(")])
def test_terms_are_added_below_the_schedule_and_on_a_side_of_hidden(parent, at):
    known = {Rule.parse(t.text).operators for t in DICTIONARY}
    found = results("term", parent)
    assert found
    for genome in found:
        assert str(genome.rule).startswith(at)
        new = parts(genome.rule) - parts(parent.rule)
        assert any(p.operators[0].name == "mul" and p.operators[2:] in known for p in new)
        assert genome.lr == parent.lr


def test_a_term_is_not_added_twice():
    parent = Genome(Rule.parse("g + mom(g, 0.9)"), 0.1)
    for genome in results("term", parent):
        assert str(genome.rule).count("mom(g)") - str(genome.rule).count("sign(mom(g)") == 1


def test_without_opponents_a_term_is_as_large_as_the_rule():
    parent = Genome(Rule.parse("g"), 2.0)
    one = Mutator(MODERN, (), UpdateSize(()))
    found = [one.apply("term", parent, parent, random.Random(i)) for i in range(60)]
    signs = [g.rule for g in found if g is not None and "sign(" in str(g.rule)]
    assert signs
    # Gradients are taken to be of size 0.01.
    for rule in signs:
        (weight,) = (c.value for c in constants(rule) if c.parameter.name == "coefficient")
        assert LEAST_WEIGHT * 0.009 < weight < 0.011


def test_decay_gives_a_schedule_or_changes_it():
    schedules = {str(split_schedule(g.rule)[0]).split("^")[0] for g in results("decay")}
    assert {"cd", "ld"} <= schedules
    assert all(split_schedule(g.rule)[0] is not None for g in results("decay", ADAM))
    powers = [g for g in results("decay") if "^" in str(g.rule)]
    assert powers


def test_constants_change_numbers_only():
    found = results("constants")
    assert {skeleton(g.rule) for g in found} == {skeleton(NESTEROV.rule)}
    assert any(g.lr != NESTEROV.lr for g in found)
    assert any(g.lr == NESTEROV.lr for g in found)
    assert all(g.key != NESTEROV.key for g in found)


def test_tied_constants_stay_tied():
    parent = Genome(Rule.parse("mom(g, 0.9) + sign(mom(g, 0.9))"), 0.1)
    for genome in results("constants", parent):
        first, second = (c.value for c in constants(genome.rule))
        assert first == second


def test_a_rule_without_numbers_has_none_to_change():
    assert not results("constants", Genome(Rule.parse("g"), 0.1))


def test_the_learning_rate_changes_alone():
    found = results("learning rate")
    assert {g.rule for g in found} == {NESTEROV.rule}
    assert 0.1 < min(g.lr for g in found) < 0.5 < max(g.lr for g in found) < 2.5


def test_a_mutant_is_never_its_parent_and_follows_from_the_generator():
    one = mutator()
    made = [one.mutant(NESTEROV, ADAM, random.Random(i)) for i in range(100)]
    assert made == [mutator().mutant(NESTEROV, ADAM, random.Random(i)) for i in range(100)]
    assert all(m is None or m.genome.key != NESTEROV.key for m in made)
    names = Counter(name for m in made if m is not None for name in m.names)
    assert len(names) >= 9
    assert any(len(m.names) > 1 for m in made if m is not None)


def test_a_space_of_inputs_has_few_mutants():
    space = Space([operators["g"], operators["m1"]], max_depth=2, name="inputs")
    parent = Genome(Rule.parse("g"), 0.1)
    one = Mutator(space, (), UpdateSize(()))
    made = [one.mutant(parent, parent, random.Random(i)) for i in range(40)]
    assert {str(m.genome.rule) for m in made if m is not None} == {"g", "m1"}


# --- genomes --------------------------------------------------------------------------------------


def test_numbers_are_round_and_a_factor_is_part_of_the_learning_rate():
    genome = normal(Genome(Rule.parse("cd*(0.5*(g + 0.123456*mom(g, 0.912345)))"), 0.23456))
    assert (str(genome.rule), genome.lr) == ("cd*(g + 0.123*mom(g, 0.9123))", 0.117)


@pytest.mark.parametrize(
    ("text", "schedule"),
    [("cd^1.5*g", "cd^1.5"), ("ld*cd*g", "ld*cd"), ("2*g", None), ("g", None), ("w*g", None)],
)
def test_the_schedule_of_a_rule_depends_on_time_only(text, schedule):
    found, rest = split_schedule(Rule.parse(text))
    assert (found and str(found)) == schedule
    assert str(rest) == ("g" if schedule else text)


def test_starts_are_written_with_averages_where_the_space_has_them():
    adam = Start("torch:adam", Rule.parse("Adam"), 10.0)
    genome = genome_of(adam, MODERN)
    assert (str(genome.rule), genome.lr) == ("ema(g)/sqrt(|ema(g^2, 0.999)|)", 0.03)
    assert str(genome_of(adam, PAPER).rule) == "Adam"
    muon = Start("torch:muon", Rule.parse("hidden(orth(m1), Adam)"), 0.1)
    assert genome_of(muon, PAPER) is None


# --- sizes of updates -----------------------------------------------------------------------------


def test_a_changed_rule_keeps_the_size_of_its_updates():
    sizes = UpdateSize([Genome(Rule.parse("g"), 1.0), Genome(Rule.parse("sign(g)"), 0.001)])
    # Gradients of size 0.001 explain why these two learning rates are good.
    lr = sizes.kept(Genome(Rule.parse("g"), 2.0), Rule.parse("sign(g)"))
    assert lr == pytest.approx(0.002, rel=0.1)
    assert sizes.kept(Genome(Rule.parse("g"), 2.0), Rule.parse("4*g")) == pytest.approx(0.5)
    by_role = Rule.parse("hidden(orth(g), g)")
    assert 0 < sizes.kept(Genome(Rule.parse("g"), 2.0), by_role) < 2.0


def test_a_random_rule_gets_a_learning_rate_of_the_usual_size():
    sizes = UpdateSize([Genome(Rule.parse("g"), 1.0), Genome(Rule.parse("sign(g)"), 0.001)])
    assert sizes.suited(Rule.parse("10*g")) == pytest.approx(0.1, rel=0.1)
    assert UpdateSize(()).suited(Rule.parse("g")) is None


@pytest.mark.parametrize("text", ["exp(exp(exp(k)))*g", "g - g", "g*unit(2)"])
def test_rules_without_a_size_keep_the_learning_rate(text):
    assert UpdateSize(()).kept(Genome(Rule.parse("g"), 0.3), Rule.parse(text)) == 0.3
