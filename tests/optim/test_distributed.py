"""Distributed training, gradient accumulation and clipping."""

import torch
import torch.distributed as dist
from runs import BY_ROLE, ELEMENT, TENSOR, assert_near, assert_same, optimizer
from torch.nn.parallel import DistributedDataParallel

STEPS = 10


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 5), torch.nn.Linear(5, 1)
    ).double()


def batch(t):
    generator = torch.Generator().manual_seed(t)
    x = torch.randn(16, 6, generator=generator, dtype=torch.float64)
    return x, x[:, :1] * 2 - x[:, 1:2].sin()


def loss(net, x, y):
    return ((net(x) - y) ** 2).mean()


def train(name, net, rows=slice(None), accumulate=1, clip=None):
    """Train on some rows of each batch; return the parameters."""
    opt = optimizer(net if name == BY_ROLE else net.parameters(), name, lr=0.05, seed=7)
    for t in range(1, STEPS + 1):
        x, y = (tensor[rows] for tensor in batch(t))
        parts = zip(x.chunk(accumulate), y.chunk(accumulate), strict=True)
        opt.zero_grad()
        for part in parts:
            (loss(net, *part) / accumulate).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
        opt.step()
    return [p.detach() for p in net.parameters()]


def worker(rank, folder, names):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=2)
    rows = slice(8 * rank, 8 * rank + 8)
    trained = {name: train(name, DistributedDataParallel(model()), rows) for name in names}
    torch.save(trained, f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def test_two_processes_train_as_one(tmp_path, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    names = ["adam", "conv3", "cola1", "products1", ELEMENT, TENSOR, BY_ROLE]
    torch.multiprocessing.spawn(worker, (str(tmp_path), names), nprocs=2)
    one, two = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    assert_same(one, two)
    for name in names:
        # Roots of matrices amplify the rounding of averaged gradients.
        tolerance = 1e-6 if name == TENSOR else 1e-9
        assert_near(one[name], train(name, model()), rtol=tolerance, atol=tolerance / 10)


def test_accumulated_and_clipped_gradients_are_those_of_a_big_batch():
    whole = train("citeseer", model(), clip=0.1)
    parts = train("citeseer", model(), accumulate=4, clip=0.1)
    assert_near(whole, parts, rtol=1e-6, atol=1e-8)


def test_clipping_changes_the_step():
    assert not torch.equal(train("momentum", model(), clip=0.1)[0], train("momentum", model())[0])
