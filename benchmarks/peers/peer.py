"""One rank of one way to train: PyTorch's, DeepSpeed's. Started by compare.py with the environment of torchrun.

usage: peer.py METHOD WORKLOAD --steps N --warmup N --accumulate A

Prints one JSON object: wall and CPU seconds of each step, and KiB resident after the imports and at the peak.
"""

import argparse
import contextlib
import json
import os
import resource
import time

import torch
import torch.distributed as dist

from workloads import WORKLOADS

LR, WEIGHT_DECAY, CLIP = 3e-4, 0.1, 1.0


def resident_kib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def peak_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def adamw(parameters, fused=True):
    return torch.optim.AdamW(parameters, lr=LR, weight_decay=WEIGHT_DECAY, fused=fused)


class Plain:
    """Forward, backward, clip and update; subclasses wrap the model and choose the optimizer."""

    def __init__(self, model, fused=True):
        self.model = self.wrap(model)
        self.optimizer = self.make_optimizer(self.model, fused)

    def wrap(self, model):
        return model

    def make_optimizer(self, model, fused):
        return adamw(model.parameters(), fused)

    def quiet(self, last):
        return contextlib.nullcontext()

    def step(self, micro_batches):
        for i, micro in enumerate(micro_batches):
            with self.quiet(i + 1 == len(micro_batches)):
                (self.model(micro) / len(micro_batches)).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=self.drops_gradients())

    def drops_gradients(self):
        return True


class Ddp(Plain):
    def wrap(self, model):
        return torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)

    def quiet(self, last):
        return contextlib.nullcontext() if last else self.model.no_sync()

    def drops_gradients(self):
        return False  # they are views of its buckets, which stay


class DdpZero(Ddp):
    def make_optimizer(self, model, fused):
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=LR, weight_decay=WEIGHT_DECAY, fused=fused)


class Fsdp2(Plain):
    def wrap(self, model):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in getattr(model, "blocks", None) or model.layers:
            fully_shard(layer, mesh=mesh, reshard_after_forward=False)
        return fully_shard(model, mesh=mesh, reshard_after_forward=False)


class DeepSpeed:
    def __init__(self, model, stage):
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
        import deepspeed

        config = {
            "train_micro_batch_size_per_gpu": 4,
            "gradient_accumulation_steps": DeepSpeed.accumulate,
            "gradient_clipping": CLIP,
            "zero_optimization": {"stage": stage, "reduce_bucket_size": 25 * 2**18, "allgather_bucket_size": 25 * 2**18,
                                  "overlap_comm": False},
            "zero_allow_untested_optimizer": True,
        }
        self.engine, *_ = deepspeed.initialize(model=model, optimizer=adamw(model.parameters()), config=config)

    def step(self, micro_batches):
        for micro in micro_batches:
            self.engine.backward(self.engine(micro))
            self.engine.step()


METHODS = {
    "alone": lambda model: Plain(model),
    "ddp": lambda model: Ddp(model, fused=False),
    "ddp_fused": lambda model: Ddp(model),
    "ddp_zero": lambda model: DdpZero(model),
    "fsdp2": lambda model: Fsdp2(model),
    "deepspeed_1": lambda model: DeepSpeed(model, 1),
    "deepspeed_2": lambda model: DeepSpeed(model, 2),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--accumulate", type=int, default=1)
    args = parser.parse_args()

    torch.set_num_threads(1)
    if args.method.startswith("deepspeed"):
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
        import deepspeed  # noqa: F401: its imports belong to the level from which memory is counted

        DeepSpeed.accumulate = args.accumulate
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    before = resident_kib()
    workload = WORKLOADS[args.workload]
    method = METHODS[args.method](workload())
    generator = torch.Generator().manual_seed(dist.get_rank() + 7)
    batches = [[workload.micro_batch(generator) for _ in range(args.accumulate)] for _ in range(2)]
    wall, cpu = [], []
    for i in range(args.warmup + args.steps):
        dist.barrier()
        start, start_cpu = time.perf_counter(), time.process_time()
        method.step(batches[i % 2])
        if i >= args.warmup:
            wall.append(time.perf_counter() - start)
            cpu.append(time.process_time() - start_cpu)
    peak = peak_kib()
    dist.barrier()
    print(json.dumps({"wall": wall, "cpu": cpu, "before_kib": before, "peak_kib": peak}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
