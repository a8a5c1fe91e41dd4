"""Measures everything that docs/performance.md promises and makes its tables. Called by scripts/bench, which builds first."""

import argparse
import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "peers")]

import document  # noqa: E402
import growth  # noqa: E402
import measure  # noqa: E402
import promises  # noqa: E402
import report  # noqa: E402

PARTS = ["kernels", "update", "optim", "collectives", "checkpoint", "offload", *promises.PEERS, "overlap", *growth.PARTS]


def path_of(folder, part):
    return os.path.join(folder, part + ".json")


def load(folder, part):
    """The part's piece, or None."""
    if folder is None or not os.path.exists(path_of(folder, part)):
        return None
    with open(path_of(folder, part), encoding="utf-8") as file:
        return json.load(file)


def save(folder, piece):
    os.makedirs(folder, exist_ok=True)
    with open(path_of(folder, piece["part"]), "w", encoding="utf-8") as file:
        json.dump(piece, file)


def measured(args):
    """{part: piece} of the parts that were asked for."""
    pieces, measuring = {}, measure.Measure(args)
    for part in args.only or PARTS:
        earlier = load(args.pieces, part)
        if args.merge:
            pieces[part] = earlier or {"part": part, "figures": [], "error": "the pieces that were merged have none of this part"}
            continue
        pieces[part] = measuring.piece(part)
        if args.add and earlier and "comparisons" in pieces[part]:
            pieces[part]["comparisons"] = earlier.get("comparisons", []) + pieces[part]["comparisons"]
        if args.pieces:
            save(args.pieces, pieces[part])
    return pieces


def write(args, made):
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(made.figures, file, indent=2)
    if args.charts:
        os.makedirs(args.charts, exist_ok=True)
        for name, chart in made.charts.items():
            with open(os.path.join(args.charts, name + ".svg"), "w", encoding="utf-8") as file:
                file.write(chart)
    if args.document:
        document.fill(args.document, made.blocks)
    print(made.text())


def arguments():
    parser = argparse.ArgumentParser(prog="bench", description="Measures what libzero promises and prints tables (Markdown).",
                                     epilog="Example: scripts/bench --quick --json figures.json")
    parser.add_argument("--bin", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and sizes: under ten minutes")
    parser.add_argument("--json", help="write the figures there: a list of {id, what, value, limit, pass}")
    parser.add_argument("--charts", help="write SVG charts into this folder")
    parser.add_argument("--document", help="put the tables into this Markdown file, between its marks")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="only these parts")
    parser.add_argument("--pieces", help="keep what each part measured in this folder")
    parser.add_argument("--add", action="store_true", help="whole steps beside the peers: keep the rounds in --pieces and add to them")
    parser.add_argument("--merge", action="store_true", help="measure nothing: tables and charts of what lies in --pieces")
    parser.add_argument("--peer-rounds", type=int, default=4, help="rounds of whole steps beside the peers (default: 4)")
    parser.add_argument("--peers-python", default=os.environ.get("ZERO_PEERS_PYTHON") or shutil.which("python3") or sys.executable,
                        help="a Python with torch and numpy, and deepspeed if it shall be compared (default: $ZERO_PEERS_PYTHON, or python3)")
    args = parser.parse_args()
    if (args.merge or args.add) and not args.pieces:
        parser.error("--merge and --add need --pieces FOLDER")
    return args


if __name__ == "__main__":
    options = arguments()
    made = report.Report(measured(options))
    write(options, made)
    sys.exit(0 if made.holds() else 1)
