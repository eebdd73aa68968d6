"""Train a small robust network, then attack it with PGD, APGD and a rule.

Run `python examples/train_robust.py` (scikit-learn's digits, seconds), or
`python examples/train_robust.py mnist weights.pt` (MNIST, minutes; saves the weights).
"""

import sys

import torch

from optsmith import data
from optsmith.adversarial import apgd, architectures, attack, pgd, train_robust

WHAT = sys.argv[1] if len(sys.argv) > 1 else "digits"
EPS, ARCHITECTURE, SETTINGS = {
    "digits": (0.15, "digits-cnn", {"epochs": 15, "attack_steps": 2, "lr": 1e-2}),
    "mnist": (0.3, "lenet-5", {"epochs": 5, "attack_steps": 3, "lr": 2e-3}),
}[WHAT]


def images_and_labels():
    """Return images in [0, 1] and labels for training, and a held-out set to attack."""
    if WHAT == "mnist":
        mnist = data.load("mnist")
        pixels, labels, top = mnist.train_images[:5500], mnist.train_labels[:5500], 255
    else:
        pixels, labels = data.load("digits")
        top = 16
    images = torch.tensor(pixels).float().unsqueeze(1) / top
    held = 500
    labels = torch.tensor(labels).long()
    return (images[:-held], labels[:-held]), (images[-held:], labels[-held:])


train, test = images_and_labels()
torch.manual_seed(0)
model = architectures[ARCHITECTURE].make()
train_robust(model, *train, EPS, **SETTINGS)

with torch.no_grad():
    wrong = (model(test[0]).argmax(1) != test[1]).float().mean().item()
print(f"{len(test[1])} held-out images, perturbed by up to {EPS} per pixel")
print(f"no attack          {wrong:6.1%} misclassified")
results = {
    "PGD": pgd(model, *test, EPS, 20),
    "APGD": apgd(model, *test, EPS, 20),
    "the rule attack1": attack(model, *test, "attack1", EPS, 20, lr=EPS / 4, random_start=True),
}
for name, result in results.items():
    print(f"{name:<18} {result.success_rate:6.1%} misclassified")
if len(sys.argv) > 2:
    torch.save(model.state_dict(), sys.argv[2])
    print(f'load_checkpoint("{sys.argv[2]}", "{ARCHITECTURE}") loads the weights')
