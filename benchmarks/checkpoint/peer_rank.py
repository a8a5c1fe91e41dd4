"""One rank of torch's side of peers.py, in a process of its own: keeps its part of a training state in memory, each tensor cut
along its first dimension as FSDP does, and saves or loads it when told to.

usage: RANK=R WORLD_SIZE=N MASTER_ADDR=... MASTER_PORT=... peer_rank.py MEBIBYTES FOLDER
stdin: "save torch.save", "load torch.distributed.checkpoint", "remove ...", one a line; stdout: a line when it is done.
"""

import os
import shutil
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

import peers


class TorchSave:
    """A file for each rank: no other number of ranks can load it."""

    def __init__(self, state, folder):
        self.state = {name: tensor.to_local() for name, tensor in state.items()}
        self.path = os.path.join(folder, f"torch-{dist.get_rank()}.pt")
        self.folder = folder

    def save(self):
        torch.save(self.state, self.path)
        peers.sync(self.path)
        peers.sync(self.folder)

    def load(self):
        loaded = torch.load(self.path, weights_only=True)
        for name, tensor in self.state.items():
            tensor.copy_(loaded[name])

    def remove(self):
        os.unlink(self.path)


class DistributedCheckpoint:
    def __init__(self, state, folder):
        self.state, self.path = state, os.path.join(folder, "dcp")

    def save(self):
        dcp.save(self.state, checkpoint_id=self.path)

    def load(self):
        dcp.load(self.state, checkpoint_id=self.path)

    def remove(self):
        if dist.get_rank() == 0:
            shutil.rmtree(self.path)


def main():
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    whole = peers.model_of(int(sys.argv[1]) << 20)
    size = sum(tensor.nbytes for tensor in whole.values())
    state = {name: distribute_tensor(whole.pop(name), mesh, [Shard(0)]) for name in list(whole)}
    sides = {"torch.save": TorchSave(state, sys.argv[2]), "torch.distributed.checkpoint": DistributedCheckpoint(state, sys.argv[2])}
    print(size, flush=True)
    for line in sys.stdin:
        what, name = line.split()
        getattr(sides[name], what)()
        dist.barrier()
        print("done", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
