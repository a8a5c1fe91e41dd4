"""From pieces (measure.py) to figures, blocks of Markdown and charts."""

import os
import statistics

import compare
import figures
import growth
import model
import promises
import svg
import tables

CORES = len(os.sched_getaffinity(0))


class Report:
    def __init__(self, pieces):
        self.pieces = pieces  # {part: piece}
        self.figures = []
        self.blocks = {}  # {name: Markdown}, what docs/performance.md has between marks
        self.charts = {}  # {name: SVG}
        for part, piece in pieces.items():
            measured = list(piece["figures"]) + self.of_part(part, piece)
            why = piece.get("error", "the programs reported no such figure")
            self.figures += figures.with_promises(measured, promises.of_part(part), why)
        self.predictions()
        promised = [entry for entry in self.figures if entry["limit"] is not None]
        self.blocks = {"figures": tables.of_figures(promised), **self.blocks}

    def holds(self):
        return all(entry["pass"] for entry in self.figures)

    def text(self):
        return "\n".join(self.blocks.values())

    def append(self, block, text):
        self.blocks[block] = self.blocks[block] + "\n" + text if block in self.blocks else text

    def of_part(self, part, piece):
        """The part's figures; its tables and charts become blocks."""
        if "error" in piece:
            self.append("errors", f"{part} did not run: {piece['error']}\n")
        if part == "collectives" and piece["figures"]:
            self.append("collectives", tables.of_collectives(piece["figures"]))
        if "update" in piece:
            return [figures.of_update(piece["update"])]
        if "comparisons" in piece:
            comparison = compare.summarised(compare.merge(piece["comparisons"]))
            self.append("peers", tables.of_peers(comparison))
            return figures.of_peers(comparison)
        if "seconds" in piece:
            return self.overlap(piece["seconds"])
        if "runs" in piece:
            self.growth(part, piece["runs"])
        return self.model() if part == "parameters" else []

    def overlap(self, seconds):
        medians = {mode: statistics.median(values) for mode, values in seconds.items()}
        said = {"early": "while backward runs (default)", "late": "after backward (`defer_reduction`)",
                "none": "none: the parameters that come out are wrong"}
        found = figures.of_overlap(medians)
        self.append("overlap", tables.table(["communication", "step s"], [[said[mode], f"{value:.3f}"] for mode, value in medians.items()]))
        self.append("overlap", "MiniGPT, stage 2, two ranks over shared memory: "
                    f"{100 * found[0]['value']:.1f} % of a step is communication that backward does not hide.\n")
        return found

    def growth(self, part, runs):
        title, x_label = growth.TITLES[part]
        title = title.format(cores=CORES)
        names = list(dict.fromkeys(run["series"] for run in runs))
        done = [dict(run, x=run["x"] or run["parameters"]) for run in runs if "wall_median" in run]
        series = {name: [(run["x"], run["wall_median"]) for run in done if run["series"] == name] for name in names}
        series = {name: line for name, line in series.items() if line}
        if series:
            self.charts[part] = svg.line_chart(title, x_label, "seconds", series)
        xs = sorted({run["x"] for run in done})
        rows = [[svg.number(x), *(f"{dict(series.get(name, [])).get(x, 0):.3f}" if x in dict(series.get(name, [])) else "-" for name in names)]
                for x in xs]
        self.append("growth", tables.section(f"{title}, seconds", tables.table([x_label, *names], rows)))
        self.append("growth", f"![{title}](charts/{part}.svg)\n")
        for run in runs:
            if "skipped" in run:
                self.append("growth", f"Not run: {run['series']}, `{' '.join(run['flags'])}`: {run['skipped']}\n")

    def model(self):
        """Fitted on small runs of the MLP of one width, as processes; each larger one is a prediction."""
        shape = growth.mlp(growth.MODEL_WIDTH)[:4]
        runs = [dict(run, seconds=run["wall_median"]) for part in ("parameters", "ranks", "accumulation") if part in self.pieces
                for run in self.pieces[part].get("runs", []) if "wall_median" in run and run["flags"][:4] == shape and not run["threads"]]
        small, large = model.split(runs)
        if not small or not large:
            return []
        weights = model.fit(small, CORES)
        predicted = [model.predict(weights, run, CORES) for run in large]
        self.append("model", tables.table(
            ["parameters", "ranks", "micro-batches", "measured s", "predicted s", "error"],
            [[f"{run['parameters'] / 1e6:.1f} M", run["ranks"], run["accumulate"], f"{run['seconds']:.3f}", f"{p:.3f}",
              f"{100 * (p / run['seconds'] - 1):+.0f} %"] for run, p in zip(large, predicted)]))
        self.append("model", tables.of_weights(weights, len(small)))
        return [figures.of_model([run["seconds"] for run in large], predicted),
                *(figures.of_prediction(run, p) for run, p in zip(large, predicted))]

    def predictions(self):
        if "parameters" in self.pieces:
            self.append("prediction", tables.of_predictions([model.gpu_step(7e9, 2**i, 8192) for i in range(3, 13)]))
