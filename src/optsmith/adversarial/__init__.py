"""Adversarial attacks on image classifiers (update rules, PGD, APGD), and robust networks."""

from optsmith.adversarial._apgd import ApgdStepper, apgd
from optsmith.adversarial._architectures import Architecture, architectures
from optsmith.adversarial._attack import attack, pgd
from optsmith.adversarial._ball import Ball, check_ball
from optsmith.adversarial._checkpoint import load_checkpoint
from optsmith.adversarial._climb import AttackOptions, check_images, check_labels
from optsmith.adversarial._digits import robust_digits
from optsmith.adversarial._look import Seen, evaluating, look
from optsmith.adversarial._normalised import Normalised
from optsmith.adversarial._result import AttackResult
from optsmith.adversarial._training import train_robust

__all__ = [
    "ApgdStepper",
    "Architecture",
    "AttackOptions",
    "AttackResult",
    "Ball",
    "Normalised",
    "Seen",
    "apgd",
    "architectures",
    "attack",
    "check_ball",
    "check_images",
    "check_labels",
    "evaluating",
    "load_checkpoint",
    "look",
    "pgd",
    "robust_digits",
    "train_robust",
]
