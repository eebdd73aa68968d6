"""The zoo: published rules and classic optimizers, in one table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from optsmith._errors import RuleError
from optsmith._registry import Registry, did_you_mean
from optsmith.rules import Rule


@dataclass(frozen=True)
class ZooEntry:
    """A rule of the zoo.

    Attributes:
        name: Name in the zoo.
        text: The rule as published.
        source: Publication or library.
        note: Task it was found on, or equivalent optimizer, and remarks on its use.
    """

    name: str
    text: str
    source: str
    note: str

    @cached_property
    def rule(self) -> Rule:
        """The rule."""
        return Rule.parse(self.text)


_PAPER = "Efficient Non-Parametric Optimizer Search for Diverse Tasks (NeurIPS 2022)"
_NOS = "Neural Optimizer Search with Reinforcement Learning (ICML 2017)"
_LION = "Symbolic Discovery of Optimization Algorithms (NeurIPS 2023)"
_SIGN = "signSGD: Compressed Optimisation for Non-Convex Problems (ICML 2018)"

_ASCENT = (
    "found on adversarial attacks; ascends as written, x + lr*rule: on resnet4b at 2/255, 20 steps"
    " misclassify 35 % of 200 images, 12 % with the opposite sign, and 20 % without an attack"
)
_TABLE = {
    _PAPER: (
        ("mnist1", "m1 + RMSprop*exp(Adam)", "found on MNISTNET"),
        ("mnist2", "m1*(exp(Adam) + exp(exp(Adam))) + RMSprop", "found on MNISTNET"),
        ("mnist3", "m1 + RMSprop*rd^g3", "found on MNISTNET"),
        ("conv1", "cd*drop(g)/ld", "found on ConvNet, CIFAR-10"),
        ("conv2", "cd*sign(m1)*abs(m2)^(sqrt(abs(ld))/2)", "found on ConvNet, CIFAR-10"),
        ("conv3", "drop(cd*m1)", "found on ConvNet, CIFAR-10"),
        ("conv4", "m1*(rd + abs(g))*exp(cd)", "found on ConvNet, CIFAR-10"),
        ("attack1", "log(abs(cd + sign(g)))", _ASCENT),
        ("attack2", "log(abs(cd + exp(g3)*sign(g)))", _ASCENT),
        ("attack3", "log(abs(ld + sign(RMSprop)))", _ASCENT),
        ("products1", "ld*sign(m1) - Adam", "found on Cluster-GAT, ogbn-products"),
        ("products2", "ld*(sign(m1) - RMSprop)", "found on Cluster-GAT, ogbn-products"),
        ("cora", "sign(m1) + m3", "found on GAT, Cora"),
        ("citeseer", "drop((sign(g) - m1)/cd)", "found on GAT, Citeseer"),
        ("pubmed", "sign(m1) + sign(m1 - drop(g3))", "found on GAT, PubMed"),
        ("ppi", "drop(rd^2)*sign(m1)", "found on GAT, PPI"),
        ("cola1", "drop(Adam + g3)", "found on BERT, CoLA"),
        (
            "cola2",
            "sign(m1^(clip(rd) + clip(sign(g)) - sign(m1)))",
            "found on BERT, CoLA; powers of negative momentum are NaN, and sign(NaN) is 0",
        ),
        ("mrpc", "drop(clip(sign(g) + sign(RMSprop)*rd))", "found on BERT, MRPC"),
        ("stsb", "sign(RMSprop + 2/(g + m3))", "found on BERT, STS-B"),
        (
            "rte",
            "drop(clip(m1 - sqrt(abs(drop(g3)))*sign(m1)))",
            "found on BERT, RTE",
        ),
        ("wnli", "sign(m1) - m3", "found on BERT, WNLI"),
    ),
    _NOS: (
        ("powersign-ld", "exp(ld*sign(g)*sign(m1))*g", "PowerSign with linear decay"),
        ("powersign-cd", "exp(cd*sign(g)*sign(m1))*g", "PowerSign with cosine decay"),
        ("addsign-ld", "(1 + ld*sign(g)*sign(m1))*g", "AddSign with linear decay"),
        ("addsign-cd", "(1 + cd*sign(g)*sign(m1))*g", "AddSign with cosine decay"),
    ),
    "torch.optim": (
        ("sgd", "g", "SGD(lr)"),
        ("momentum", "m1", "SGD(lr, momentum=0.9)"),
        ("nesterov", "g + 0.9*m1", "SGD(lr, momentum=0.9, nesterov=True)"),
        ("adam", "Adam", "Adam(0.003*lr): the input includes its scale"),
        ("rmsprop", "RMSprop", "RMSprop(0.03*lr): the input includes its scale"),
    ),
    _SIGN: (
        ("signsgd", "sign(g)", "signSGD"),
        ("signum", "sign(m1)", "signSGD with momentum"),
    ),
    _LION: (
        (
            "lion",
            "sign(m1(0.99) + 10*g)",
            "exactly sign(0.9*m + 0.1*g), where m is the 0.99 average before the current gradient",
        ),
    ),
}

zoo: Registry[ZooEntry] = Registry("zoo rule")
for _source, _entries in _TABLE.items():
    for _name, _text, _note in _entries:
        zoo.add(_name, ZooEntry(_name, _text, _source, _note))


def named_rule(text: str) -> Rule:
    """Return the rule for a zoo name or a rule text."""
    if text in zoo:
        return zoo[text].rule
    try:
        return Rule.parse(text)
    except RuleError:
        near = did_you_mean(text, zoo) if text.replace("-", "").isalnum() else ""
        if not near:
            raise
        raise RuleError(f'there is no rule named "{text}"{near}') from None
