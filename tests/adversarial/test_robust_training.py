"""Adversarial training, and the network trained on digits."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from optsmith import TaskError
from optsmith.adversarial import _digits, pgd, robust_digits, train_robust


@pytest.fixture
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.getbasetemp() / "robust"
    monkeypatch.setenv("OPTSMITH_CACHE", str(folder))
    return folder


def stripes(count: int, seed: int):
    """Two classes told apart robustly by one half of the image, and precisely by a faint pixel."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (count,), generator=generator)
    images = 0.3 + 0.4 * torch.rand(count, 1, 4, 4, generator=generator)
    sign = (2.0 * labels - 1).view(-1, 1, 1)
    images[:, :, :2] += 0.15 * sign.unsqueeze(1)
    images[:, 0, 3, 3] = 0.5 + 0.02 * sign.view(-1)
    return images.clamp(0, 1), labels


def small() -> nn.Module:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))


def test_adversarial_training_makes_a_model_robust():
    images, labels = stripes(512, 0)
    test, classes = stripes(256, 1)
    robust, plain = small(), small()
    history = train_robust(robust, images, labels, 0.1, epochs=12, attack_steps=3, lr=1e-2)
    train_robust(plain, images, labels, 1e-6, epochs=12, attack_steps=1, lr=1e-2)
    rates = [pgd(m, test, classes, 0.1, 10).success_rate for m in (robust, plain)]
    assert rates[0] < rates[1] - 0.05
    assert history[-1] < 0.66  # below log 2, the loss of guessing
    assert len(history) == 12
    assert not robust.training


def test_training_depends_on_the_seed_only():
    images, labels = stripes(64, 0)
    weights = []
    for seed in (0, 0, 1):
        torch.rand(1)
        model = small()
        train_robust(model, images, labels, 0.1, epochs=1, attack_steps=1, seed=seed)
        weights.append(model[1].weight)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_bad_settings_are_refused():
    images, labels = stripes(8, 0)
    with pytest.raises(TaskError, match="epochs must be at least 1, not 0"):
        train_robust(small(), images, labels, 0.1, epochs=0)
    with pytest.raises(TaskError, match=r"numbers in \[0, 1\]"):
        train_robust(small(), images * 16, labels, 0.1, epochs=1)


def test_the_digits_network_is_robust_and_cached(cache, monkeypatch):
    state = torch.get_rng_state()
    model, (images, labels) = robust_digits()
    assert torch.equal(state, torch.get_rng_state())
    assert len(images) == 897
    with torch.no_grad():
        assert (model(images).argmax(1) == labels).float().mean() > 0.93
    assert 0.3 < pgd(model, images, labels, 0.15, 20).success_rate < 0.6
    assert [path.name for path in (cache / "robust-digits").iterdir()] == ["robust-digits-1.pt"]

    monkeypatch.setattr(_digits, "train_robust", None)  # would fail if it were called
    again, _ = robust_digits()
    for name, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])


def test_a_damaged_or_read_only_cache_is_tolerated(tmp_path, monkeypatch):
    trained = []
    monkeypatch.setattr(_digits, "train_robust", lambda *_, **__: trained.append(1))
    monkeypatch.setenv("OPTSMITH_CACHE", str(tmp_path))
    file = tmp_path / "robust-digits" / "robust-digits-1.pt"
    file.parent.mkdir()
    file.write_bytes(b"not weights")
    robust_digits()
    robust_digits()
    assert trained == [1]
    assert [path.name for path in file.parent.iterdir()] == [file.name]

    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OPTSMITH_CACHE", str(tmp_path / "file"))
    robust_digits()
    assert trained == [1, 1]
