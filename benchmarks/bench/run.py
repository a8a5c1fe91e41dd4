"""Measures everything that docs/performance.md promises and makes its tables. Called by scripts/bench, which builds first."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "peers")]

import compare  # noqa: E402
import figures  # noqa: E402
import model  # noqa: E402
import svg  # noqa: E402
import tables  # noqa: E402

CORES = len(os.sched_getaffinity(0))


class Bench:
    def __init__(self, args):
        self.args = args
        self.figures = []
        self.sections = []
        self.charts = {}

    def say(self, line):
        print(line, file=sys.stderr, flush=True)

    def program(self, name):
        return os.path.join(self.args.bin, name)

    def step(self, ranks, *flags, threads=False):
        """The summary of one run of step_benchmark."""
        steps = ["--steps", "4" if self.args.quick else "8"]
        if threads:
            command = [self.program("step_benchmark"), "--threads-world", str(ranks), *steps, *flags]
        else:
            command = [self.program("zero"), "run", "-n", str(ranks), "--", self.program("step_benchmark"), *steps, *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        if done.returncode != 0:
            raise RuntimeError(" ".join(command) + ": " + compare.last_lines(done.stderr or done.stdout))
        lines = [json.loads(line[line.index("{"):]) for line in done.stdout.splitlines() if "{" in line]
        return dict(compare.summary([lines]), parameters=lines[0]["parameters"], ranks=ranks)

    def json_of(self, command, name):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.json")
            done = subprocess.run([*command, "--output", path], capture_output=True, text=True, timeout=1800)
            if done.returncode not in (0, 1):
                raise RuntimeError(f"{name}: {compare.last_lines(done.stderr)}")
            with open(path, encoding="utf-8") as report:
                return json.load(report)

    # Parts. Each adds figures and sections.

    def kernels(self):
        rounds = "5" if self.args.quick else "15"
        for name in ("kernels_benchmark", "optim_benchmark"):
            self.figures += self.json_of([self.program(name), "--rounds", rounds], name)

    def collectives(self):
        for ranks in (2, 4):
            command = [self.program("zero"), "run", "-n", str(ranks), "--", self.program("collectives_benchmark")]
            report = self.json_of(command + (["--rounds", "5"] if self.args.quick else []), "collectives_benchmark")
            self.figures += [dict(entry, id=f"{entry['id']}.n{ranks}" if not entry["id"].endswith(f".n{ranks}") else entry["id"])
                             for entry in report]

    def checkpoint(self):
        flags = ["--mib", "96", "--rounds", "3"] if self.args.quick else []
        with tempfile.TemporaryDirectory(dir=".") as folder:
            self.figures += self.json_of([self.program("checkpoint_benchmark"), "--directory", folder, *flags], "checkpoint_benchmark")

    def offload(self):
        flags = ["--mib", "256", "--rounds", "3"] if self.args.quick else []
        with tempfile.TemporaryDirectory(dir=".") as folder:
            self.figures += self.json_of([self.program("offload_benchmark"), "--directory", folder, *flags], "offload_benchmark")

    def peers(self):
        python = self.args.peers_python
        if subprocess.run([python, "-c", "import torch, numpy"], capture_output=True).returncode != 0:
            self.sections.append(f"The peers were not measured: {python} has no torch and numpy; see --peers-python.\n")
            return
        for workload, accumulate in (("minigpt", 1), ("minigpt", 4), ("mlp", 1)):
            command = [python, os.path.join(HERE, "..", "peers", "compare.py"), self.args.bin, "--workload", workload, "--accumulate",
                       str(accumulate), "--rounds", "1" if self.args.quick else "5", "--steps", "4" if self.args.quick else "8"]
            if self.args.quick:
                command += ["--only", "libzero_1", "libzero_2", "libzero_2_no_sync", "ddp_fused", "ddp_zero", "fsdp2", "deepspeed_2"]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            comparison = json.loads(done.stdout)
            self.figures += figures.of_peers(comparison)
            self.sections.append(tables.of_peers(comparison))

    def overlap(self):
        seconds = {mode: self.step(2, "--workload", "minigpt", "--communication", mode)["wall_median"]
                   for mode in ("early", "late", "none")}
        self.figures += figures.of_overlap(seconds)
        self.sections.append(tables.of_scaling("Overlap (MiniGPT, stage 2, 2 ranks)", ["communication", "step s"],
                                               [[mode, f"{value:.3f}"] for mode, value in seconds.items()]))

    def scaling(self):
        widths = [1024, 2048, 4096] if self.args.quick else [512, 1024, 2048, 4096, 8192]
        self.by_parameters(widths)
        self.by_ranks()
        self.by_bucket()
        self.by_accumulation()

    def by_parameters(self, widths):
        series, runs = {}, {}
        for ranks in (1, 2):
            runs[ranks] = [self.step(ranks, "--workload", "mlp", "--hidden", str(width)) for width in widths]
            series[f"{ranks} rank" + "s" * (ranks > 1)] = [(run["parameters"], run["wall_median"]) for run in runs[ranks]]
        self.chart("parameters", "Step time and parameters (MLP, stage 2)", "parameters", "seconds", series)
        seen = [dict(run, accumulate=1, seconds=run["wall_median"]) for ranks in runs for run in runs[ranks]]
        self.check_model(seen)

    def check_model(self, runs):
        """Fitted on all but the largest size of each world."""
        largest = max(run["parameters"] for run in runs)
        small = [run for run in runs if run["parameters"] < largest]
        large = [run for run in runs if run["parameters"] == largest]
        weights = model.fit(small, CORES)
        predicted = [model.predict(weights, run, CORES) for run in large]
        self.figures.append(figures.of_model([run["seconds"] for run in large], predicted))
        self.sections.append(tables.of_scaling(
            "Model of the step, fitted without the largest size", ["ranks", "parameters", "measured s", "predicted s"],
            [[run["ranks"], f"{run['parameters'] / 1e6:.1f} M", f"{run['seconds']:.3f}", f"{p:.3f}"] for run, p in zip(large, predicted)]))
        self.sections.append(tables.of_scaling(
            "Prediction: 7 B parameters, bf16, stage 2, 8192 tokens a GPU", ["GPUs", "compute s", "exposed communication s", "update s", "step s", "efficiency"],
            [[p["ranks"], f"{p['compute']:.3f}", f"{p['exposed']:.3f}", f"{p['update']:.4f}", f"{p['step']:.3f}", f"{p['efficiency']:.2f}"]
             for p in (model.gpu_step(7e9, 2**i, 8192) for i in range(3, 13))]))

    def by_ranks(self):
        worlds = (1, 2, 4) if self.args.quick else (1, 2, 4, 8)
        series = {}
        for name, threads in (("processes", False), ("threads", True)):
            series[name] = [(n, self.step(n, "--workload", "mlp", "--hidden", "1024", threads=threads)["wall_median"]) for n in worlds]
        self.chart("ranks", f"Step time and ranks on {CORES} cores (MLP, 5.5 M parameters)", "ranks", "seconds", series)

    def by_bucket(self):
        sizes = (1, 4, 25) if self.args.quick else (1, 2, 4, 8, 25, 64)
        line = [(mib, self.step(2, "--workload", "minigpt", "--bucket-mib", str(mib))["wall_median"]) for mib in sizes]
        self.chart("buckets", "Step time and bucket size (MiniGPT, 2 ranks)", "MiB", "seconds", {"stage 2": line})

    def by_accumulation(self):
        counts = (1, 4) if self.args.quick else (1, 2, 4, 8)
        line = [(a, self.step(2, "--workload", "minigpt", "--accumulate", str(a))["wall_median"]) for a in counts]
        self.chart("accumulation", "Step time and accumulation (MiniGPT, 2 ranks)", "micro-batches a rank", "seconds", {"stage 2": line})

    def chart(self, name, title, x_label, y_label, series):
        self.charts[name] = svg.line_chart(title, x_label, y_label, series)
        worlds = list(series)
        rows = [[svg.number(x), *(f"{series[world][i][1]:.3f}" for world in worlds)] for i, (x, _) in enumerate(series[worlds[0]])]
        self.sections.append(tables.of_scaling(title, [x_label, *worlds], rows))

    # The report.

    def run(self):
        for part in self.args.only or PARTS:
            self.say(f"bench: {part}")
            try:
                getattr(self, part)()
            except (RuntimeError, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
                self.sections.append(f"{part} did not run: {error}\n")
                self.figures.append({"id": part, "what": f"did not run: {error}", "value": 0.0, "limit": 0.0, "pass": False})
        self.write()

    def write(self):
        text = tables.of_figures(self.figures) + "\n" + "\n".join(self.sections)
        if self.args.json:
            with open(self.args.json, "w", encoding="utf-8") as report:
                json.dump(self.figures, report, indent=2)
        if self.args.charts:
            os.makedirs(self.args.charts, exist_ok=True)
            for name, chart in self.charts.items():
                with open(os.path.join(self.args.charts, name + ".svg"), "w", encoding="utf-8") as file:
                    file.write(chart)
        print(text)


PARTS = ["kernels", "collectives", "checkpoint", "offload", "peers", "overlap", "scaling"]


def arguments():
    parser = argparse.ArgumentParser(prog="bench", description="Measures what libzero promises and prints tables (Markdown).",
                                     epilog="Example: scripts/bench --quick --json figures.json")
    parser.add_argument("--bin", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and sizes: under ten minutes")
    parser.add_argument("--json", help="write the figures there: a list of {id, what, value, limit, pass}")
    parser.add_argument("--charts", help="write SVG charts into this folder")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="only these parts")
    parser.add_argument("--peers-python", default=os.environ.get("ZERO_PEERS_PYTHON") or shutil.which("python3") or sys.executable,
                        help="a Python with torch and numpy, and deepspeed if it shall be compared (default: $ZERO_PEERS_PYTHON, or python3)")
    return parser.parse_args()


if __name__ == "__main__":
    bench = Bench(arguments())
    bench.run()
    sys.exit(0 if all(entry["pass"] for entry in bench.figures) else 1)
