"""Search for an optimizer for your own model, given as a module, its data and a loss.

Run `python examples/your_module.py`, or `optsmith search examples/your_module.py:task`.
"""

from sklearn.datasets import load_breast_cancer
from torch import nn, tensor
from torch.nn.functional import cross_entropy

import optsmith
from optsmith.task import accuracy

x, y = load_breast_cancer(return_X_y=True)
x, y = tensor((x - x.mean(0)) / x.std(0)).float(), tensor(y)

task = optsmith.Task.from_module(
    lambda: nn.Sequential(nn.Linear(30, 16), nn.Tanh(), nn.Linear(16, 2)),
    (x, y),  # a tenth each is split off for validation and as test data
    cross_entropy,
    metric=accuracy,
    objective="validation loss",  # finer than the accuracy on 57 examples
    batch_size=32,
    steps=300,
    name="tumours",
)

if __name__ == "__main__":
    study = optsmith.search(task, budget=128)
    print(study.verdict)
    model = nn.Linear(30, 2)
    print(study.best().optimizer(model.parameters(), total_steps=300))
