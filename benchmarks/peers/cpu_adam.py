"""Times one update of bf16 parameters with fp32 masters: libzero's, and what a trainer with DeepSpeed's CPUAdam does, in turns.

usage: cpu_adam.py BIN [--millions 25] [--rounds 15]

BIN is the folder with update_peer_side (ninja update_peer_side). Run it with a Python that has torch, deepspeed and ninja; g++
builds DeepSpeed's kernel when it is first asked for. CPUAdam knows one dtype: bf16 gradients are cast into fp32 ones, CPUAdam
steps the masters, and they are cast into the bf16 parameters. All memory is there from the start, in huge pages on both sides;
one thread each, at real-time priority where the system allows it. Both sides begin with the same values and must end with the
same parameters. Prints JSON.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

# Before torch is imported: one thread, memory as good as ours, and the compiler that DeepSpeed's documents name.
os.environ.update(OMP_NUM_THREADS="1", THP_MEM_ALLOC_ENABLE="1", DS_ACCELERATOR="cpu")
for name in ("CC", "CXX"):
    os.environ.pop(name, None)
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]  # ninja lies beside the interpreter

LR, WEIGHT_DECAY = 1e-3, 0.01


class Ours:
    def __init__(self, program, millions):
        self.process = subprocess.Popen([program, str(millions)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def step(self):
        return self.tell("step")

    def sum(self):
        return self.tell("sum")


class Theirs:
    def __init__(self, millions):
        import torch
        from deepspeed.ops.adam import DeepSpeedCPUAdam

        torch.set_num_threads(1)
        n = millions * 1_000_000
        value = (torch.arange(n) % 1000 - 500).float() * 1e-4  # as benchmarks/kernels/streams.cpp
        self.gradient = value.to(torch.bfloat16)
        self.master = torch.nn.Parameter(value * 10)
        self.master.grad = torch.zeros(n)
        self.parameter = torch.zeros(n, dtype=torch.bfloat16)
        self.optimizer = DeepSpeedCPUAdam([self.master], lr=LR, weight_decay=WEIGHT_DECAY)

    def step(self):
        start = time.perf_counter()
        self.master.grad.copy_(self.gradient)
        self.optimizer.step()
        self.parameter.copy_(self.master.data)
        return time.perf_counter() - start

    def sum(self):
        return self.parameter.double().abs().sum().item()


def undisturbed(process):
    try:
        os.sched_setscheduler(process, os.SCHED_FIFO, os.sched_param(1))
    except (AttributeError, PermissionError):
        pass  # refused to ordinary users; then both sides are as disturbed as anybody


def compare(ours, theirs, rounds):
    times = {"ours": [], "theirs": []}
    sides = [("ours", ours), ("theirs", theirs)]
    for number in range(rounds + 1):  # the first warms up
        for name, side in sides if number % 2 else sides[::-1]:
            seconds = side.step()
            if number:
                times[name].append(seconds)
    sums = ours.sum(), theirs.sum()
    if abs(sums[0] / sums[1] - 1) > 1e-4:
        raise SystemExit(f"the two sides did different work: their parameters add up to {sums[0]} and {sums[1]}")
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--millions", type=int, default=25)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    theirs = Theirs(args.millions)
    ours = Ours(os.path.join(args.bin, "update_peer_side"), args.millions)
    try:
        undisturbed(0)
        undisturbed(ours.process.pid)
        times = compare(ours, theirs, args.rounds)
    finally:
        ours.process.stdin.close()
        ours.process.wait()
    print(json.dumps({"ratio": statistics.median(a / b for a, b in zip(times["ours"], times["theirs"])),
                      "median_seconds": statistics.median(times["ours"]), "median_seconds_theirs": statistics.median(times["theirs"]),
                      "rounds": args.rounds}))


if __name__ == "__main__":
    main()
