"""Runs the programs. Each part gives a piece: plain data, from which report.py makes figures, tables and charts."""

import json
import os
import subprocess
import sys
import tempfile

import compare
import growth
import promises

PEERS_FOLDER = os.path.dirname(os.path.abspath(compare.__file__))
SLOW_PEERS = ["alone", "fsdp2", "deepspeed_1", "deepspeed_2"]  # far away from ours: one round tells
QUICK_CONTENDERS = ["libzero_1", "libzero_2", "libzero_1_no_sync", "libzero_2_no_sync", "ddp_fused", "ddp_zero", "fsdp2", "deepspeed_2"]
SMALL_BYTES = 2 << 30
FAILURES = (RuntimeError, OSError, ValueError, KeyError, subprocess.SubprocessError)


def say(line):
    print(line, file=sys.stderr, flush=True)


def free_bytes():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))


class Measure:
    def __init__(self, args):
        self.args = args

    def piece(self, part):
        """What the part measured; with the member "error" where something did not run."""
        say(f"bench: {part}")
        result = {"part": part, "quick": self.args.quick, "figures": []}
        try:
            if part in growth.PARTS:
                result["runs"] = self.grown(growth.PARTS[part](self.args.quick))
            elif part in promises.PEERS:
                self.peers(result, *promises.PEERS[part])
            else:
                getattr(self, part)(result)
        except FAILURES as error:
            result["error"] = str(error)
            say(f"bench: {part}: {error}")
        return result

    def program(self, name):
        return os.path.join(self.args.bin, name)

    def on_ranks(self, ranks, name):
        return [self.program("zero"), "run", "-n", str(ranks), "--", self.program(name)]

    def figures_of(self, command, name):
        """What a program that reports figures wrote."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.json")
            done = subprocess.run([*command, "--output", path], capture_output=True, text=True, timeout=1800)
            if not os.path.exists(path):  # the exit code tells as well whether promises hold
                raise RuntimeError(f"{name}: {compare.last_lines(done.stderr) or f'exit code {done.returncode}'}")
            with open(path, encoding="utf-8") as report:
                return json.load(report)

    def python(self, script, *flags):
        """The JSON that a script for the peers' Python prints."""
        python = self.args.peers_python
        if subprocess.run([python, "-c", "import torch, numpy"], capture_output=True).returncode != 0:
            raise RuntimeError(f"{python} has no torch and numpy; see --peers-python")
        done = subprocess.run([python, os.path.join(PEERS_FOLDER, script), self.args.bin, *map(str, flags)],
                              stdout=subprocess.PIPE, stderr=None if script == "compare.py" else subprocess.PIPE, text=True, timeout=3600)
        if done.returncode != 0:
            raise RuntimeError(f"{script}: {compare.last_lines(done.stderr or '') or f'exit code {done.returncode}'}")
        return json.loads(next(line for line in reversed(done.stdout.splitlines()) if line.startswith("{")))

    def kernels(self, result):
        result["figures"] += self.figures_of([self.program("kernels_benchmark"), "--rounds", "5" if self.args.quick else "15"], "kernels_benchmark")

    def optim(self, result):
        result["figures"] += self.figures_of([self.program("optim_benchmark"), "--rounds", "5" if self.args.quick else "61"], "optim_benchmark")

    def update(self, result):
        result["update"] = self.python("cpu_adam.py", "--rounds", 5 if self.args.quick else 15)

    def collectives(self, result):
        for ranks in (2, 4):
            result["figures"] += self.figures_of(self.on_ranks(ranks, "collectives_benchmark") + (["--rounds", "5"] if self.args.quick else []),
                                                 "collectives_benchmark")

    def checkpoint(self, result):
        flags = ["--mib", "96", "--rounds", "3"] if self.args.quick else []
        with tempfile.TemporaryDirectory(dir=".") as folder:
            result["figures"] += self.figures_of([self.program("checkpoint_benchmark"), "--directory", folder, "/dev/shm", *flags],
                                                 "checkpoint_benchmark")

    def offload(self, result):
        flags = ["--mib", "256", "--rounds", "3"] if self.args.quick else []
        with tempfile.TemporaryDirectory(dir=".") as folder:
            result["figures"] += self.figures_of([self.program("offload_benchmark"), "--directory", folder, *flags], "offload_benchmark")

    def peers(self, result, workload, accumulate):
        flags = ["--workload", workload, "--accumulate", accumulate, "--steps", 4 if self.args.quick else 8, "--raw"]
        if self.args.quick:
            result["comparisons"] = [self.python("compare.py", *flags, "--rounds", 1, "--only", *QUICK_CONTENDERS)]
            return
        result["comparisons"] = [self.python("compare.py", *flags, "--rounds", 1)]
        fast = [name for name in [*compare.OURS, *compare.PEERS] if name not in SLOW_PEERS]
        if self.args.peer_rounds > 1:
            result["comparisons"].append(self.python("compare.py", *flags, "--rounds", self.args.peer_rounds - 1, "--only", *fast))

    def overlap(self, result):
        modes = ("early", "late", "none") * (1 if self.args.quick else 3)
        seconds = {mode: [] for mode in modes}
        for mode in modes:
            seconds[mode].append(compare.summary([self.step(2, ["--workload", "minigpt", "--communication", mode])])["wall_median"])
        result["seconds"] = seconds

    def grown(self, runs):
        """The runs with their times, or with the reason why they have none. Small ones take a second turn after all others."""
        rounds, skipped = [[] for _ in runs], {}
        for turn in range(1 if self.args.quick else 2):
            for i, run in enumerate(runs):
                if i in skipped or (turn > 0 and run["needs_bytes"] > SMALL_BYTES):
                    continue
                free = free_bytes() * growth.MEMORY_SHARE
                if run["needs_bytes"] > free:
                    skipped[i] = f"needs {run['needs_bytes'] / 2**30:.1f} GiB and a few layers; {free / 2**30:.1f} GiB are free"
                    continue
                try:
                    rounds[i].append(self.step(run["ranks"], run["flags"], run["threads"]))
                except FAILURES as error:
                    skipped[i] = str(error)
        return [dict(run, skipped=skipped[i]) if i in skipped else dict(run, **self.summary(rounds[i])) for i, run in enumerate(runs)]

    def summary(self, rounds):
        return dict(compare.summary(rounds), parameters=rounds[0][0]["parameters"], buckets=rounds[0][0]["buckets"])

    def step(self, ranks, flags, threads=False):
        """What every rank of one run of step_benchmark said."""
        flags = [*flags, "--steps", "4" if self.args.quick else "7"]
        if threads:
            command = [self.program("step_benchmark"), "--threads-world", str(ranks), *flags]
        else:
            command = [*self.on_ranks(ranks, "step_benchmark"), *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        if done.returncode != 0:
            raise RuntimeError(" ".join(command) + ": " + compare.last_lines(done.stderr or done.stdout))
        return [json.loads(line[line.index("{"):]) for line in done.stdout.splitlines() if "{" in line]
