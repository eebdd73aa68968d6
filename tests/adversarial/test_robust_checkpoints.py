"""Checkpoints of robust networks: every published format, and invalid files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from optsmith import DataError, OptsmithError, data
from optsmith.adversarial import Normalised, architectures, load_checkpoint
from optsmith.adversarial._resnets import preact_resnet, silu_wide_resnet, wide_resnet
from optsmith.adversarial._small import lenet5

SHARED = Path(__file__).parents[3] / "shared" / "data"
PUBLISHED = {
    "resnet4b": ("resnet4b.pth", 77.1),
    "resnet2b": ("resnet2b.pth", 70.3),
    "cifar-wide": ("cifar_wide.pth", 63.6),
    "cifar-base": ("cifar_base.pth", 61.1),
    "cifar-deep": ("cifar_deep.pth", 56.5),
    "cnn-a": ("cifar_cnn_a_adv4.model", 60.2),
}


def tiny() -> nn.Module:
    return lenet5(8, (2, 3), 4)


IMAGES = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def prefixed(prefix, weights):
    return {prefix + name: value for name, value in weights.items()}


FORMS = {
    "plain": lambda w: w,
    "nested": lambda w: {"state_dict": w, "epoch": 3},
    "listed": lambda w: {"state_dict": [w], "err": 0.5},
    "named model_state_dict": lambda w: {"model_state_dict": w},
    "parallel": lambda w: {"state_dict": prefixed("module.", w)},
    "deeply wrapped": lambda w: {"last": prefixed("module.model.", w)},
    "with unused weights": lambda w: {**w, "sub_block1.layer.0.bn1.weight": torch.ones(2)},
}
NORMALISED = {
    "mu, sigma": lambda w, m, s: {**w, "mu": m.view(1, 1, 1, 1), "sigma": s.view(1, 1, 1, 1)},
    "mean, std": lambda w, m, s: prefixed("module.", {**w, "mean": m, "std": s}),
    "a pair": lambda w, m, s: {"0.mean": m, "0.std": s, **prefixed("1.", w)},
    "a wrapper": lambda w, m, s: {"mean": m, "std": s, **prefixed("model.", w)},
    "a named wrapper": lambda w, m, s: {
        "normalize.mean": m,
        "normalize.std": s,
        **prefixed("model.", w),
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_every_published_format_is_loaded(form, tmp_path):
    model = tiny().eval()
    torch.save(FORMS[form](model.state_dict()), tmp_path / "weights.pt")
    loaded = load_checkpoint(tmp_path / "weights.pt", tiny())
    assert torch.equal(loaded(IMAGES), model(IMAGES))
    assert not loaded.training


@pytest.mark.parametrize("form", NORMALISED)
def test_a_normalisation_in_the_file_is_used(form, tmp_path):
    model = tiny().eval()
    mean, std = torch.tensor([0.4]), torch.tensor([0.2])
    torch.save(NORMALISED[form](model.state_dict(), mean, std), tmp_path / "weights.pt")
    loaded = load_checkpoint(tmp_path / "weights.pt", tiny())
    torch.testing.assert_close(loaded(IMAGES), model((IMAGES - 0.4) / 0.2))
    other = load_checkpoint(tmp_path / "weights.pt", tiny(), mean=[0.1], std=[0.3])
    torch.testing.assert_close(other(IMAGES), model((IMAGES - 0.1) / 0.3))


def test_mismatched_weights_are_named(tmp_path):
    path = tmp_path / "weights.pt"
    weights = tiny().state_dict()

    def refuse(changed, message):
        torch.save(changed, path)
        with pytest.raises(DataError, match=message) as caught:
            load_checkpoint(path, tiny())
        assert "\n" not in str(caught.value)

    missing = {name: value for name, value in weights.items() if name != "conv2.bias"}
    refuse(missing, 'has no "conv2.bias", which Sequential requires')
    refuse({**weights, "conv9.bias": torch.ones(1)}, 'has "conv9.bias", which Sequential does not')
    refuse({**weights, "conv2.bias": torch.ones(7)}, r'"conv2.bias" in .* \(7,\), .* \(3,\)')
    refuse({"optimizer": {}}, "has no state dict, neither at the top level nor under")
    refuse({"state_dict": {"w": 3}}, "has no state dict")
    refuse([1, 2], "has no state dict")


def test_unreadable_files_are_named(tmp_path):
    with pytest.raises(DataError, match=r"cannot read the checkpoint .*: No such file"):
        load_checkpoint(tmp_path / "none.pt", "lenet-5")
    (tmp_path / "text.pt").write_text("no weights here")
    with pytest.raises(DataError, match="is not a checkpoint"):
        load_checkpoint(tmp_path / "text.pt", "lenet-5")
    torch.save(tiny(), tmp_path / "code.pt")  # a whole module: loading it would run code
    with pytest.raises(DataError, match="is not a checkpoint") as caught:
        load_checkpoint(tmp_path / "code.pt", "lenet-5")
    assert "\n" not in str(caught.value)
    with pytest.raises(OptsmithError, match='did you mean "wide-resnet-28-10"'):
        load_checkpoint(tmp_path / "none.pt", "wideresnet-28-10")
    with pytest.raises(DataError, match="mean and std must be given together"):
        load_checkpoint(tmp_path / "none.pt", "lenet-5", mean=[0.1])


def test_files_without_batch_counts_are_loaded(tmp_path):
    model = wide_resnet(10, 1).eval()
    weights = {n: v for n, v in model.state_dict().items() if "num_batches" not in n}
    torch.save(weights, tmp_path / "old.pt")
    loaded = load_checkpoint(tmp_path / "old.pt", wide_resnet(10, 1))
    images = torch.rand(2, 3, 32, 32)
    assert torch.equal(loaded(images), model(images))


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (
            partial(wide_resnet, 16, 2),
            ["conv1.weight", "block1.layer.0.bn1.running_mean",
             "block1.layer.0.convShortcut.weight",
             "block3.layer.1.conv2.weight", "bn1.weight", "fc.bias"],
        ),
        (
            partial(silu_wide_resnet, 16, 2),
            ["init_conv.weight", "layer.0.block.0.batchnorm_0.weight",
             "layer.2.block.0.shortcut.weight", "layer.2.block.1.conv_1.weight",
             "batchnorm.running_var", "logits.bias"],
        ),
        (
            preact_resnet,
            ["conv1.weight", "layer1.0.bn1.weight", "layer2.0.shortcut.0.weight",
             "layer4.1.conv2.weight", "linear.bias"],
        ),
    ],
)  # fmt: skip
def test_weights_have_the_names_of_published_files(make, names):
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        model = make().eval()
    assert set(names) <= model.state_dict().keys()
    images = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    logits = model(images)
    assert logits.shape == (3, 10)
    assert torch.allclose(logits[1:], model(images[1:]), atol=1e-5)
    assert not torch.allclose(logits[0], logits[1], atol=1e-5)


@pytest.mark.parametrize(
    ("name", "millions"),
    [("wide-resnet-28-10", 36.479194), ("wide-resnet-34-10", 46.160474)],
)
def test_wide_networks_have_the_published_number_of_parameters(name, millions):
    with torch.device("meta"):
        model = architectures[name].make()
        silu = architectures[f"{name}-silu"].make()
    for network in (model, silu):
        assert sum(p.numel() for p in network.parameters()) == round(millions * 1e6)


def test_a_strided_silu_block_is_padded_at_the_end():
    """As TensorFlow's "SAME" does; padding on both sides would give other values."""
    block = silu_wide_resnet(10, 1).layer[1].block[0].eval()
    one = torch.zeros(1, 16, 8, 8)
    one[..., 0, 0] = 1.0
    assert block.padding == (0, 1, 0, 1)
    assert block(one).shape == (1, 32, 4, 4)


def test_mean_and_std_are_buffers_that_move_with_the_model():
    model = Normalised(tiny(), [0.5], [0.25]).double()
    assert model(IMAGES.double()).dtype == torch.float64


@pytest.fixture(scope="module")
def cifar():
    try:
        found = data.load("cifar10", download=False)
    except OptsmithError:
        pytest.skip("CIFAR-10 is not on this machine: OPTSMITH_DATA may name its directory")
    images = torch.tensor(found.test_images[:1000]).float() / 255
    return images, torch.tensor(found.test_labels[:1000]).long()


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_networks_have_the_expected_accuracy(name, cifar):
    file, accuracy = PUBLISHED[name]
    path = SHARED / "robust_cifar10" / file
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    images, labels = cifar
    model = load_checkpoint(path, name)
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).double().mean()
    assert 100 * right.item() == pytest.approx(accuracy, abs=0.11)


def test_the_mnist_network_has_the_expected_accuracy():
    path = SHARED / "robust_mnist" / "mnist_lenet5_advtrained.pt"
    if not path.is_file() or not (SHARED / "mnist").is_dir():
        pytest.skip("the network or MNIST is not on this machine")
    mnist = data.load("mnist", SHARED)
    images = torch.tensor(mnist.test_images[:1000]).float().unsqueeze(1) / 255
    model = load_checkpoint(path, "lenet-5")
    with torch.no_grad():
        right = model(images).argmax(1) == torch.tensor(mnist.test_labels[:1000]).long()
    assert right.double().mean() > 0.97
