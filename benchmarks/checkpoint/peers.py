"""Saves and loads the same state with libzero, torch.save and torch.distributed.checkpoint, in turns on the same disk.

usage: peers.py PEER_SIDE FOLDER [--mebibytes 685] [--rounds 7] [--ranks 1] [--json FILE]

PEER_SIDE is the program checkpoint_peer_side (ninja checkpoint_peer_side). Run it with a Python that has torch and numpy.
One process each, all threads left at their defaults. With --ranks N the same state is cut into N parts: N threads of one
process with libzero, N processes that talk over Gloo with torch (peer_rank.py), where torch.save writes a file for each
rank, which is no checkpoint that another number of ranks could load. Everybody ends a save with the bytes on the disk: libzero and
torch.distributed.checkpoint sync themselves, after torch.save the file and its folder are synced here. Loads find the file
in the page cache and fill memory that exists already, as far as the library lets them.
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed.checkpoint as dcp


def model_of(bytes_wanted):
    """The same shapes as benchmarks/checkpoint/model.cpp."""
    width, wanted, parameters, numel, layer = 768, bytes_wanted // 12, {}, 0, 0
    while numel < wanted:
        for name, shape in (("norm.weight", (width,)), ("attention.weight", (3 * width, width)),
                            ("attention.bias", (3 * width,)), ("projection.weight", (width, width)),
                            ("up.weight", (4 * width, width)), ("up.bias", (4 * width,)),
                            ("down.weight", (width, 4 * width))):
            for state in ("master", "exp_avg", "exp_avg_sq"):
                parameters[f"blocks.{layer}.{name}.{state}"] = torch.rand(shape)
            numel += torch.Size(shape).numel()
        layer += 1
    return parameters


def sync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


class Libzero:
    def __init__(self, program, mebibytes, folder, ranks):
        root = os.path.join(folder, "libzero")
        self.process = subprocess.Popen([program, str(mebibytes), root, str(ranks)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.bytes = int(self.process.stdout.readline())

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def save(self):
        return self.tell("save")

    def load(self):
        return self.tell("load")

    def remove(self):
        self.tell("remove")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Timed:
    def save(self):
        start = time.perf_counter()
        self.do_save()
        return time.perf_counter() - start

    def load(self):
        start = time.perf_counter()
        self.do_load()
        return time.perf_counter() - start


class TorchSave(Timed):
    def __init__(self, state, folder):
        self.state, self.folder, self.path = state, folder, os.path.join(folder, "torch.pt")

    def do_save(self):
        torch.save(self.state, self.path)
        sync(self.path)
        sync(self.folder)

    def do_load(self):
        loaded = torch.load(self.path, weights_only=True)
        for name, tensor in self.state.items():
            tensor.copy_(loaded[name])

    def remove(self):
        os.unlink(self.path)


class DistributedCheckpoint(Timed):
    def __init__(self, state, folder):
        self.state, self.path = state, os.path.join(folder, "dcp")

    def do_save(self):
        dcp.save(self.state, checkpoint_id=self.path, no_dist=True)

    def do_load(self):
        dcp.load(self.state, checkpoint_id=self.path, no_dist=True)

    def remove(self):
        shutil.rmtree(self.path)


class Ranks:
    """torch's processes."""

    def __init__(self, mebibytes, folder, ranks):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer_rank.py")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        place = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        self.processes = [subprocess.Popen([sys.executable, script, str(mebibytes), folder],
                                           env={**os.environ, **place, "RANK": str(rank)}, stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, text=True) for rank in range(ranks)]
        self.bytes = [int(process.stdout.readline()) for process in self.processes][0]

    def tell(self, command):
        start = time.perf_counter()
        for process in self.processes:
            process.stdin.write(command + "\n")
            process.stdin.flush()
        for process in self.processes:
            if not process.stdout.readline():
                raise SystemExit("a rank of torch's side failed; its message is above")
        return time.perf_counter() - start

    def close(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait()


class OnRanks:
    def __init__(self, ranks, name):
        self.ranks, self.name = ranks, name

    def save(self):
        return self.ranks.tell("save " + self.name)

    def load(self):
        return self.ranks.tell("load " + self.name)

    def remove(self):
        self.ranks.tell("remove " + self.name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer_side")
    parser.add_argument("folder")
    parser.add_argument("--mebibytes", type=int, default=685)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--json")
    arguments = parser.parse_args()

    folder = os.path.join(arguments.folder, f"peers-{os.getpid()}")
    os.makedirs(folder)
    try:
        results = compare(arguments, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


def sides_of(arguments, folder):
    """Everybody by name, and what is to be closed at the end."""
    libzero = Libzero(arguments.peer_side, arguments.mebibytes, folder, arguments.ranks)
    if arguments.ranks == 1:
        state = model_of(arguments.mebibytes << 20)
        size = sum(tensor.nbytes for tensor in state.values())
        torch_sides, to_close = (TorchSave(state, folder), DistributedCheckpoint(state, folder)), [libzero]
    else:
        ranks = Ranks(arguments.mebibytes, folder, arguments.ranks)
        size = ranks.bytes
        torch_sides, to_close = (OnRanks(ranks, "torch.save"), OnRanks(ranks, "torch.distributed.checkpoint")), [libzero, ranks]
    if libzero.bytes != size:
        raise SystemExit(f"the states differ in size: {libzero.bytes} and {size}")
    return dict(zip(("libzero", "torch.save", "torch.distributed.checkpoint"), (libzero, *torch_sides))), to_close


def compare(arguments, folder):
    sides, to_close = sides_of(arguments, folder)
    times = {name: {"save": [], "load": []} for name in sides}
    order = list(sides)
    for index in range(arguments.rounds + 1):  # the first warms up
        for name in order[index % 3:] + order[:index % 3]:
            save, load = sides[name].save(), sides[name].load()
            sides[name].remove()
            if index:
                times[name]["save"].append(save)
                times[name]["load"].append(load)
    for side in to_close:
        side.close()
    return report(times, sides["libzero"].bytes, arguments)


def report(times, size, arguments):
    print(f"{size / 2**20:.0f} MiB, {arguments.ranks} rank(s), {arguments.rounds} rounds, torch {torch.__version__}; medians [least]")
    results = []
    for what in ("save", "load"):
        for name in times:
            values = times[name][what]
            print(f"{what} {name:30} {statistics.median(values):7.3f} s [{min(values):.3f}]")
        for name in list(times)[1:]:
            ratios = [a / b for a, b in zip(times["libzero"][what], times[name][what])]
            value = statistics.median(ratios)
            ranks = "" if arguments.ranks == 1 else f".{arguments.ranks}_ranks"
            results.append({"id": f"checkpoint.{what}{ranks}.{name}", "what": f"{what}: libzero's time over {name}'s, same bytes, same disk",
                            "value": value, "limit": 1.0, "pass": value <= 1.0})
            print(f"{what} libzero / {name}: {value:.2f}")
    return results


if __name__ == "__main__":
    main()
