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
_LARS = "Large Batch Training of Convolutional Networks (2017)"
_LAMB = "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes (ICLR 2020)"
_CAUTIOUS = "Cautious Optimizers: Improving Training with One Line of Code (2024)"
_ADEMAMIX = "The AdEMAMix Optimizer: Better, Faster, Older (ICLR 2025)"
_GRAMS = "Grams: Gradient Descent with Adaptive Momentum Scaling (2024)"
_SHAMPOO = "Shampoo: Preconditioned Stochastic Tensor Optimization (ICML 2018)"

_ASCENT = (
    "found on adversarial attacks; ascends as written, x + lr*rule: on resnet4b at 2/255, 20 steps"
    " misclassify 35 % of 200 images, 12 % with the opposite sign, and 20 % without an attack"
)

# Parts of the texts below. A division adds 1e-8 to the divisor, as Adam does; where an optimizer
# adds nothing, its rule has the power -1 instead.
_ADAM = "ema(g)/sqrt(ema(g2, 0.999))"
_DECAY = "0.01*w"
# NAdam's momentum of step k is 0.9 - 0.45*0.96^(0.004*k). The product of the first k is that of the
# middle one to the power of k, to 1e-8: torch keeps it in single precision.
_NADAM = (
    "((0.1 + 0.45*0.96^(0.004*k))*(1 - (0.9 - 0.45*0.96^(0.002*k + 0.002))^k)^-1*g"
    " + (0.09 - 0.045*0.96^(0.004*k + 0.004))*(1 - (0.9 - 0.45*0.96^(0.002*k + 0.004))^(k + 1))^-1"
    "*mom(g))/sqrt(ema(g2, 0.999))"
)
_RHO = "(1999 - 2*k*(0.999^-k - 1)^-1)"  # length of the average, of at most 1999 steps
_ADAPTS = "sign(relu(k - 5))"  # RAdam is descent with momentum in its first five steps
_RADAM = (
    f"(1 - {_ADAPTS})*ema(g)"
    f" + {_ADAPTS}*sqrt((1 - 0.999^k)*({_RHO} - 6 + 8*{_RHO}^-1)*1999/3984015)*ema(g)"
    "/sqrt(0.001*mom(g2, 0.999))"
)
_AGREES = "sign(relu(g*ema(g)))"

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
        ("adamw", f"{_ADAM} + {_DECAY}", "AdamW(lr, weight_decay=0.01)"),
        ("nadam", _NADAM, "NAdam(lr); the product of its momenta is exact to 1e-8"),
        ("radam", _RADAM, "RAdam(lr)"),
        (
            "rmsprop-momentum",
            "mom(g/sqrt(0.01*mom(g2, 0.99)))",
            "RMSprop(lr, momentum=0.9)",
        ),
        ("adagrad", "g/sqrt(mom(g2, 1))", "Adagrad(lr, eps=1e-8)"),
        (
            "muon",
            f"hidden(0.2*fan*orth(g + 0.95*mom(g, 0.95)), {_ADAM}) + {_DECAY}",
            'Muon(lr, weight_decay=0.01, adjust_lr_fn="match_rms_adamw") for hidden matrices,'
            " AdamW(lr, weight_decay=0.01) for the rest",
        ),
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
    _LARS: (
        (
            "lars",
            "mom((rms(w)/(1000*rms(g) + 0.5*rms(w)) - sign(rms(w)) + 1)*(g + 0.0005*w))",
            "trust coefficient 0.001, momentum 0.9, weight decay 0.0005; vectors, too, are scaled",
        ),
    ),
    _LAMB: (
        (
            "lamb",
            f"rms(w)*unit({_ADAM} + {_DECAY}) + (1 - sign(rms(w)))*({_ADAM} + {_DECAY})",
            "weight decay 0.01; norms are not clipped; the trust ratio of zero weights is 1",
        ),
    ),
    _CAUTIOUS: (
        (
            "cautious-adamw",
            f"{_ADAM}*{_AGREES}*max(rms({_AGREES})^2, 0.001)^-1 + {_DECAY}",
            "as the authors' code: steps against the gradient are 0, and the others are divided by"
            " their share, which is at least 0.001; weight decay 0.01",
        ),
    ),
    _ADEMAMIX: (
        (
            "ademamix",
            "(ema(g) + 0.0005*mom(g, 0.9999))/sqrt(ema(g2, 0.999))",
            "alpha 5 from the first step on: a beta that changes during the run is not expressible",
        ),
    ),
    _GRAMS: (
        (
            "grams",
            "sign(g)*abs(ema(g))/sqrt(ema(g2, 0.999))",
            "the sign of the gradient with the size of Adam's step",
        ),
    ),
    _SHAMPOO: (
        (
            "shampoo",
            "whiten(g, g)",
            "averages with beta 0.95 instead of sums; eigenvalues over their mean, and at least"
            " 1e-6, so that steps have about the gradient's size; roots every 10 steps; vectors and"
            " sides above 1024 are not changed",
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
