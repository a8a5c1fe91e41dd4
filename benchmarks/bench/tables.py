"""The report as Markdown."""


def row(cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def table(head, rows):
    return "\n".join([row(head), row(["---"] * len(head)), *map(row, rows)]) + "\n"


def of_figures(figures):
    def mark(entry):
        return "-" if entry["limit"] is None else ("yes" if entry["pass"] else "**no**")

    return table(["figure", "what", "value", "limit", "holds"],
                 [[entry["id"], entry["what"], f"{entry['value']:.3f}", "-" if entry["limit"] is None else f"{entry['limit']:.3f}",
                   mark(entry)] for entry in figures])


def of_peers(comparison):
    rows = [[name, f"{c['wall_median']:.3f} ({c['wall_min']:.3f})", f"{c['cpu_median']:.3f} ({c['cpu_min']:.3f})", f"{c['net_mib']:.0f}"]
            for name, c in sorted(comparison["contenders"].items(), key=lambda item: item[1]["wall_median"])]
    text = f"### {comparison['workload']}, accumulation {comparison['accumulate']}, {comparison['ranks']} ranks\n\n"
    text += table(["contender", "wall s (minimum)", "CPU s a rank (minimum)", "net peak MiB"], rows)
    for name, error in comparison["not_running"].items():
        text += f"\nNot running: {name}: {error}\n"
    return text


def of_scaling(title, head, rows):
    return f"### {title}\n\n" + table(head, rows)
