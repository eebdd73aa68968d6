"""Train with a rule in Lightning: `configure_optimizers` returns the optimizer and a scheduler.

Trains on scikit-learn's digits, then resumes a second run from a checkpoint halfway. Requires
`pip install lightning scikit-learn`.
"""

import logging
import sys
import tempfile
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import optsmith

try:
    import lightning
    from sklearn.datasets import load_digits
except ModuleNotFoundError as error:
    print(
        f"requires lightning and scikit-learn: pip install lightning scikit-learn "
        f"({error.name} missing)",
        file=sys.stderr,
    )
    sys.exit(2)

EPOCHS, RULE = 20, optsmith.zoo["addsign-cd"].rule
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")  # hints on data workers and directories
torch.set_num_threads(1)

pixels, digits = load_digits(return_X_y=True)
order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(0))
x, y = torch.tensor(pixels[order], dtype=torch.float32) / 16, torch.tensor(digits[order])
TRAIN, TEST = TensorDataset(x[:1397], y[:1397]), TensorDataset(x[1397:], y[1397:])


class Classifier(lightning.LightningModule):
    """A small network for the digits."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch, index):
        """Return the loss of a batch."""
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def test_step(self, batch, index):
        """Log the accuracy on a batch."""
        x, y = batch
        self.log("accuracy", (self.net(x).argmax(1) == y).float().mean(), on_epoch=True)

    def configure_optimizers(self):
        """Return the optimizer and a warm-up schedule with one step per optimizer step."""
        steps = int(self.trainer.estimated_stepping_batches)
        optimizer = optsmith.RuleOptimizer(self.parameters(), RULE, lr=0.3, total_steps=steps)
        warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": warmup, "interval": "step"},
        }


def run(folder, checkpoint=None):
    """Train from scratch or from a checkpoint; return the model and its trainer."""
    lightning.seed_everything(0, verbose=False)
    model = Classifier()
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        accumulate_grad_batches=2,
        gradient_clip_val=1.0,
        callbacks=lightning.pytorch.callbacks.ModelCheckpoint(
            folder, "{epoch}", every_n_epochs=EPOCHS // 2, save_top_k=-1
        ),
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(TRAIN, batch_size=64), ckpt_path=checkpoint)
    return model, trainer


def main():
    """Train a full run, then resume a second one from the checkpoint halfway."""
    with tempfile.TemporaryDirectory() as folder:
        whole, trainer = run(folder)
        trainer.test(whole, DataLoader(TEST, batch_size=len(TEST)), verbose=False)
        print(f"rule {RULE}: test accuracy {trainer.callback_metrics['accuracy']:.1%}")
        resumed, _ = run(folder, f"{folder}/epoch={EPOCHS // 2 - 1}.ckpt")
        pairs = zip(whole.parameters(), resumed.parameters(), strict=True)
        same = all(torch.equal(a, b) for a, b in pairs)
        print(f"resumed halfway: {'the same' if same else 'OTHER'} weights at the end")


if __name__ == "__main__":
    main()
