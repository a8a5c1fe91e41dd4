"""Times whole training steps of libzero and of PyTorch's and DeepSpeed's ways to do the same, in turns.

usage: compare.py BIN [--workload minigpt|mlp] [--accumulate A] [--rounds R] [--steps S] [--ranks N] [--only NAME ...] [--raw]

BIN is the folder with zero and step_benchmark (ninja step_benchmark zero_cli). Run it with a Python that has torch; DeepSpeed
is compared where it is installed. Every contender starts anew for each round: N processes, one thread each, fp32, the same
model, batch and clipping. A contender that does not run is listed with what it said. Prints JSON: medians, or with --raw what
every rank said in every round, which merge() can put together with other runs.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = ["alone", "ddp", "ddp_fused", "ddp_zero", "fsdp2", "deepspeed_1", "deepspeed_2"]
OURS = {
    "libzero_1": ["--stage", "1"],
    "libzero_2": ["--stage", "2"],
    "libzero_1_gloo": ["--stage", "1", "--backend", "gloo"],
    "libzero_2_gloo": ["--stage", "2", "--backend", "gloo"],
    "libzero_1_no_sync": ["--stage", "1", "--backend", "gloo", "--no-sync"],
    "libzero_2_no_sync": ["--stage", "2", "--backend", "gloo", "--no-sync"],
}
TIMEOUT = 600


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_peer(name, args):
    port = free_port()
    processes = []
    # DeepSpeed compiles when it starts, with the compiler that its documents name.
    inherited = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX")}
    for rank in range(args.ranks):
        environment = dict(inherited, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(args.ranks),
                           LOCAL_WORLD_SIZE=str(args.ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1")
        command = [sys.executable, os.path.join(HERE, "peer.py"), name, args.workload, "--steps", str(args.steps),
                   "--warmup", str(args.warmup), "--accumulate", str(args.accumulate)]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    return [finish(process) for process in processes]


def run_ours(name, args):
    command = [os.path.join(args.bin, "zero"), "run", "-n", str(args.ranks), "--",
               os.path.join(args.bin, "step_benchmark"), "--workload", args.workload, "--steps", str(args.steps),
               "--warmup", str(args.warmup), "--accumulate", str(args.accumulate), *OURS[name]]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, error = process.communicate(timeout=TIMEOUT)
    if process.returncode != 0:
        raise RuntimeError(last_lines(error or out))
    return [json.loads(line[line.index("{"):]) for line in out.splitlines() if "{" in line]


def finish(process):
    try:
        out, error = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    if process.returncode != 0:
        raise RuntimeError(last_lines(error))
    return json.loads(next(line for line in reversed(out.splitlines()) if line.startswith("{")))


def last_lines(text):
    return " | ".join(line.strip() for line in text.strip().splitlines()[-3:])


def summary(rounds):
    """Of one contender's rounds, each a list of one object per rank. A step lasts as long as on its slowest rank."""
    wall = [max(values) for ranks in rounds for values in zip(*(rank["wall"] for rank in ranks))]
    cpu = [statistics.mean(values) for ranks in rounds for values in zip(*(rank["cpu"] for rank in ranks))]
    net = [max(rank["peak_kib"] - rank["before_kib"] for rank in ranks) / 1024 for ranks in rounds]
    result = {"wall_median": statistics.median(wall), "wall_min": min(wall), "cpu_median": statistics.median(cpu),
              "cpu_min": min(cpu), "net_mib": statistics.median(net), "rounds": len(rounds)}
    if "step" in rounds[0][0]:
        result["step_median"] = statistics.median(max(values) for ranks in rounds for values in zip(*(rank["step"] for rank in ranks)))
        result["backend"] = rounds[0][0]["backend"]
    return result


def measure(args):
    """What each rank of each contender said, by contender and round."""
    names = args.only or [*OURS, *PEERS]
    if args.accumulate == 1:
        names = [name for name in names if not name.endswith("no_sync")]  # nothing to leave out
    rounds, errors = {name: [] for name in names}, {}
    for number in range(args.rounds):
        order = names if number % 2 == 0 else names[::-1]
        for name in order:
            if name in errors:
                continue
            try:
                rounds[name].append(run_ours(name, args) if name in OURS else run_peer(name, args))
            except (RuntimeError, StopIteration, ValueError, subprocess.TimeoutExpired) as error:
                errors[name] = str(error)
            print(f"round {number + 1}/{args.rounds}: {args.workload}, {name}" + (": " + errors[name] if name in errors else ""),
                  file=sys.stderr)
    return {"workload": args.workload, "accumulate": args.accumulate, "ranks": args.ranks, "rounds": rounds, "not_running": errors}


def merge(runs):
    """Runs of measure() with the same workload as one with all their rounds; who failed once, failed."""
    first = dict(runs[0], rounds={}, not_running={})
    for run in runs:
        if (run["workload"], run["accumulate"], run["ranks"]) != (first["workload"], first["accumulate"], first["ranks"]):
            raise ValueError("runs of different workloads cannot be merged: "
                             f"{run['workload']}, accumulation {run['accumulate']}, and {first['workload']}, {first['accumulate']}")
        first["not_running"].update(run["not_running"])
        for name, rounds in run["rounds"].items():
            first["rounds"].setdefault(name, []).extend(rounds)
    return first


def summarised(run):
    return dict({key: run[key] for key in ("workload", "accumulate", "ranks", "not_running")},
                contenders={name: summary(values) for name, values in run["rounds"].items() if values and name not in run["not_running"]})


def arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--workload", choices=["minigpt", "mlp"], default="minigpt")
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=[*OURS, *PEERS])
    parser.add_argument("--raw", action="store_true", help="everything that the ranks said, instead of medians")
    return parser.parse_args(argv)


if __name__ == "__main__":
    options = arguments()
    measured = measure(options)
    print(json.dumps(measured if options.raw else summarised(measured), indent=None if options.raw else 2))
