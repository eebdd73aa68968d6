"""Train with a rule in Hugging Face's Trainer: `Trainer(optimizers=(optimizer, scheduler))`.

A tiny, randomly initialised BERT learns to classify whether a sentence contains a given word.
Nothing is downloaded. Requires `pip install transformers accelerate`.
"""

import sys
import tempfile

import torch

import optsmith

try:
    import accelerate  # noqa: F401 - required by Trainer
    from transformers import (
        BertConfig,
        BertForSequenceClassification,
        Trainer,
        TrainingArguments,
        get_cosine_schedule_with_warmup,
        set_seed,
    )
except ModuleNotFoundError as error:
    print(
        f"requires transformers and accelerate: pip install transformers accelerate "
        f"({error.name} missing)",
        file=sys.stderr,
    )
    sys.exit(2)

STEPS, WORDS, LENGTH = 200, 50, 12
RULE = optsmith.zoo["cola1"].rule  # found on BERT, CoLA


def sentences(count, seed):
    """Return random sentences; half of them contain word 7 and have the label 1."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(8, WORDS, (count, LENGTH), generator=generator)
    places = torch.randint(1, LENGTH, (count,), generator=generator)
    labels = torch.arange(count) % 2
    ids[labels == 1, places[labels == 1]] = 7
    return [{"input_ids": i, "labels": n} for i, n in zip(ids, labels, strict=True)]


def trainer(folder):
    """Return a Trainer with a new model and a rule as its optimizer."""
    set_seed(0)
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = BertForSequenceClassification(config)
    # total_steps equals max_steps: both count optimizer steps.
    optimizer = optsmith.RuleOptimizer(model.parameters(), RULE, lr=1.0, total_steps=STEPS)
    return Trainer(
        model=model,
        args=TrainingArguments(
            folder,
            max_steps=STEPS,
            per_device_train_batch_size=16,
            gradient_accumulation_steps=2,
            max_grad_norm=1.0,
            save_steps=STEPS // 2,
            use_cpu=True,
            report_to="none",
            logging_strategy="no",
            disable_tqdm=True,
            seed=0,
        ),
        train_dataset=sentences(2048, seed=1),
        eval_dataset=sentences(512, seed=2),
        compute_metrics=lambda p: {"accuracy": (p.predictions.argmax(-1) == p.label_ids).mean()},
        optimizers=(optimizer, get_cosine_schedule_with_warmup(optimizer, 20, STEPS)),
    )


def main():
    """Train a full run, then resume a second one from the checkpoint halfway."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        whole = trainer(folder)
        before = whole.evaluate()["eval_accuracy"]
        whole.train()
        after = whole.evaluate()["eval_accuracy"]
        print(f"rule {RULE}: accuracy {before:.1%} -> {after:.1%}")
        resumed = trainer(folder)
        resumed.train(resume_from_checkpoint=f"{folder}/checkpoint-{STEPS // 2}")
        pairs = zip(whole.model.parameters(), resumed.model.parameters(), strict=True)
        same = all(torch.equal(a, b) for a, b in pairs)
        print(f"resumed at step {STEPS // 2}: {'the same' if same else 'OTHER'} weights at the end")


if __name__ == "__main__":
    main()
