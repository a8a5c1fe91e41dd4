"""Draws one step of a merged timeline as SVG.

usage: timeline.py MERGED.json STEP OUT.svg

docs/charts/timeline.svg: zero run -n 2 -- minigpt --data DATA --width 256 --steps 8 --precision fp32 --bucket-mib 1 \
    --eval-every 0 --sample 0 --profile 4, then zero trace merge and this, step 5.
"""

import json
import sys
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, ROW, GAP = 1000, 130, 20, 30, 8
COLOURS = {"forward": "#9ecae1", "backward": "#4292c6", "pack": "#fdd0a2", "reduce": "#c1461e", "vote": "#7a3f98",
           "update": "#3b7d2e", "gather": "#e6a100", "reduce wait": "#bbbbbb", "gather wait": "#bbbbbb", "room wait": "#bbbbbb"}
LANES = {0: "training", 1: "communication"}


def events_of(path, step):
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    return [event for event in events if event["ph"] == "X" and event["args"]["step"] == step and event["cat"] in COLOURS]


def panel(events, title, top, begin, end):
    """All ranks' lanes between two times (microseconds); returns lines of SVG and where it ends."""
    def x_of(time):
        return LEFT + (min(max(time, begin), end) - begin) / (end - begin) * (WIDTH - LEFT - RIGHT)

    out = [f'<text x="{LEFT}" y="{top + 14}" font-size="14">{escape(title)}</text>']
    y = top + 26
    for rank in sorted({event["pid"] for event in events}):
        for lane, name in LANES.items():
            out.append(f'<text x="{LEFT - 8}" y="{y + 19}" text-anchor="end">rank {rank} {name}</text>'
                       f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - RIGHT}" height="{ROW}" fill="#f4f4f4"/>')
            mine = [e for e in events if (e["pid"], e["tid"]) == (rank, lane) and e["ts"] < end and e["ts"] + e["dur"] > begin]
            for e in mine:
                x, width = x_of(e["ts"]), max(x_of(e["ts"] + e["dur"]) - x_of(e["ts"]), 0.6)
                out.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW}" fill="{COLOURS[e["cat"]]}">'
                           f'<title>{escape(e["name"])}, {e["dur"]:.0f} us</title></rect>')
            y += ROW + 2
        y += GAP
    for i in range(6):
        time = begin + (end - begin) * i / 5
        out.append(f'<text x="{x_of(time):.1f}" y="{y + 10}" text-anchor="middle" fill="#555">{(time - begin) / 1000:.1f} ms</text>')
    return out, y + 30


def main(path, step, target):
    events = events_of(path, int(step))
    begin, end = min(e["ts"] for e in events), max(e["ts"] + e["dur"] for e in events)
    votes = [e for e in events if e["cat"] == "vote"]
    whole, y = panel(events, "one step of MiniGPT on 2 ranks", 10, begin, end)
    close, y = panel(events, "its end: vote, updates, gathers", y, min(e["ts"] for e in votes), end)
    legend = []
    for i, name in enumerate(name for name in COLOURS if not name.endswith("wait")):
        legend.append(f'<rect x="{LEFT + 105 * i}" y="{y}" width="12" height="12" fill="{COLOURS[name]}"/>'
                      f'<text x="{LEFT + 105 * i + 17}" y="{y + 11}">{name}</text>')
    legend.append(f'<rect x="{LEFT + 735}" y="{y}" width="12" height="12" fill="#bbbbbb"/>'
                  f'<text x="{LEFT + 752}" y="{y + 11}">waiting</text>')
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 30}" font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{y + 30}" fill="white"/>']
    with open(target, "w", encoding="utf-8") as file:
        file.write("\n".join(head + whole + close + legend + ["</svg>", ""]))


if __name__ == "__main__":
    main(*sys.argv[1:])
