"""The report as Markdown."""


def row(cells):
    return "| " + " | ".join(str(cell).replace("|", "/") for cell in cells) + " |"


def table(head, rows):
    return "\n".join([row(head), row(["---"] * len(head)), *map(row, rows)]) + "\n"


def section(title, text):
    return f"### {title}\n\n{text}"


def of_figures(figures):
    def mark(entry):
        return "-" if entry["limit"] is None else ("yes" if entry["pass"] else "**no**")

    def number(value, absent):
        return absent if value is None else f"{value:.3f}"

    return table(["figure", "what", "value", "limit", "holds"],
                 [[entry["id"], entry["what"], number(entry["value"], "not measured"), number(entry["limit"], "-"), mark(entry)]
                  for entry in figures])


def of_peers(comparison):
    rows = [[name, f"{c['wall_median']:.3f} ({c['wall_min']:.3f})", f"{c['cpu_median']:.3f} ({c['cpu_min']:.3f})", f"{c['net_mib']:.0f}",
             c["rounds"]] for name, c in sorted(comparison["contenders"].items(), key=lambda item: item[1]["wall_median"])]
    text = section(f"{comparison['workload']}, accumulation {comparison['accumulate']}, {comparison['ranks']} ranks",
                   table(["contender", "wall s (minimum)", "CPU s a rank (minimum)", "net peak MiB", "rounds"], rows))
    for name, error in comparison["not_running"].items():
        text += f"\nNot running: {name}: {error}\n"
    return text


def of_collectives(figures):
    """Milliseconds by job; every figure of a job has shared memory's time or Gloo's, and somebody else's."""
    jobs, names = {}, ["shm", "gloo", "ring", "copies"]
    for entry in figures:
        *job, pair, ranks = entry["id"].split(".")
        ours, theirs = pair.split("_to_", 1)
        times = jobs.setdefault((*job, ranks[1:]), {})
        times[ours], times[theirs] = entry["median_ms"], entry["median_ms_theirs"]
    return table(["job", "dtype", "bytes", "ranks", *names],
                 [[*job, *(f"{times[name]:.2f}" if name in times else "-" for name in names)] for job, times in jobs.items()])


def of_weights(weights, runs):
    said = ", ".join(f"{name} {1e3 * value:.2f} ms" if name == "overhead" else f"{name} {1e9 * value:.2f} ns" for name, value in weights.items())
    return f"Fitted on {runs} smaller runs, per parameter: {said}.\n"


def of_predictions(steps):
    return table(["GPUs", "compute s", "exposed communication s", "update s", "step s", "efficiency"],
                 [[p["ranks"], f"{p['compute']:.3f}", f"{p['exposed']:.3f}", f"{p['update']:.4f}", f"{p['step']:.3f}",
                   f"{p['efficiency']:.2f}"] for p in steps])
