"""What the integration tests share: where the programs are, and how to start them on several ranks."""

import os
import signal
import subprocess
import sys
import time

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else "build/release/bin"
# How many times longer things may take than in a build without sanitizer.
SLOWDOWN = float(os.environ.get("ZERO_TEST_SLOWDOWN", "1"))
ZERO = os.path.join(BIN, "zero")


def program(name):
    return os.path.join(BIN, name)


def clean_environment(**extra):
    """Without a trace of a launcher that may have started the tests themselves."""
    prefixes = ("ZERO_", "SLURM_", "OMPI_", "TORCHELASTIC_", "MASTER_")
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(prefixes) and k not in names}
    return {**kept, **extra}


def run(arguments, ranks=0, timeout=100, **environment):
    """Runs a program to its end, alone or under `zero run`; returns (exit code, stdout, stderr)."""
    command = ([ZERO, "run", "-n", str(ranks), "--"] if ranks else []) + arguments
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          timeout=timeout * SLOWDOWN, env=clean_environment(**environment))
    return done.returncode, done.stdout, done.stderr


def start(arguments, ranks, **environment):
    """Starts a program under `zero run`, stdout and stderr in one pipe."""
    command = [ZERO, "run", "-n", str(ranks), "--"] + arguments
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                            env=clean_environment(**environment))


def without_prefix(text):
    """Drops `zero run`'s "[rank] " from each line."""
    return [line.split("] ", 1)[1] if line.startswith("[") and "] " in line else line for line in text.splitlines()]


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    return time.monotonic()
