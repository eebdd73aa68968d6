"""Log a search with TensorBoard, MLflow or anything else, through an observer.

Run `python examples/observer.py`. With TensorBoard installed, `tensorboard --logdir runs` shows the
scores while the search runs; without it they are printed.
"""

from collections import Counter

import optsmith

try:
    from torch.utils.tensorboard import SummaryWriter
except ImportError:
    SummaryWriter = None


class Log(optsmith.Observer):
    """Logs the score of every accepted rule, and of every evaluation outside of the search."""

    def __init__(self, folder: str) -> None:
        self.writer = SummaryWriter(folder) if SummaryWriter else None
        self.count: Counter[str] = Counter()

    def log(self, name: str, score: float) -> None:
        """Log one number; with MLflow: `mlflow.log_metric(name, score, self.count[name])`."""
        self.count[name] += 1
        if self.writer:
            self.writer.add_scalar(name, score, self.count[name])
        else:
            print(f"{name} {self.count[name]}: {score:.4g}")

    def told(self, candidate, outcome) -> None:
        """Log a candidate of the search."""
        if outcome.accepted:
            self.log("search", outcome.score)

    def evaluated(self, phase, evaluation) -> None:
        """Log an evaluation of another phase: opponents, tuning, report, speed-up, checks."""
        if evaluation.score is not None:
            self.log(f"{phase}/{evaluation.recipe}", evaluation.score)

    def finished(self) -> None:
        """Write what is buffered."""
        if self.writer:
            self.writer.close()


if __name__ == "__main__":
    study = optsmith.search("digits", preset="smoke", observer=Log("runs"))
    print(study.verdict)
