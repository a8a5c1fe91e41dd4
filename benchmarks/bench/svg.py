"""A line chart as SVG, both axes logarithmic. Nothing but the standard library."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 400, 70, 170, 40, 50
COLOURS = ["#1f5fa8", "#c1461e", "#3b7d2e", "#7a3f98", "#8a6d00", "#006d77"]


def ticks(low, high):
    """Round values: powers of ten, with 2 and 5 between them where there are few."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 3 else (1,)
    values = [step * 10.0**decade for decade in decades for step in steps]
    return [value for value in values if low * 0.999 <= value <= high * 1.001]


def number(value):
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g}{suffix}"
    return f"{value:.3g}"


def line_chart(title, x_label, y_label, series):
    """series: {name: [(x, y), ...]}, all positive."""
    points = [point for line in series.values() for point in line]
    low_x, high_x = min(x for x, _ in points), max(x for x, _ in points)
    low_y, high_y = min(y for _, y in points) / 1.2, max(y for _, y in points) * 1.2
    if low_x == high_x:
        low_x, high_x = low_x / 2, high_x * 2

    def place(value, low, high, start, end):
        return start + (math.log(value) - math.log(low)) / (math.log(high) - math.log(low)) * (end - start)

    def x_of(x):
        return place(x, low_x, high_x, LEFT, WIDTH - RIGHT)

    def y_of(y):
        return place(y, low_y, high_y, HEIGHT - BOTTOM, TOP)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="22" font-size="14">{escape(title)}</text>']
    for x in ticks(low_x, high_x):
        out.append(f'<line x1="{x_of(x):.1f}" y1="{TOP}" x2="{x_of(x):.1f}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>'
                   f'<text x="{x_of(x):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{number(x)}</text>')
    for y in ticks(low_y, high_y):
        out.append(f'<line x1="{LEFT}" y1="{y_of(y):.1f}" x2="{WIDTH - RIGHT}" y2="{y_of(y):.1f}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{y_of(y) + 4:.1f}" text-anchor="end">{number(y)}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>')
    out.append(f'<text x="16" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" '
               f'transform="rotate(-90 16 {(TOP + HEIGHT - BOTTOM) / 2})">{escape(y_label)}</text>')
    for i, (name, line) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in line)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3" fill="{colour}"/>' for x, y in line]
        out.append(f'<text x="{WIDTH - RIGHT + 10}" y="{TOP + 16 * (i + 1)}" fill="{colour}">{escape(name)}</text>')
    return "\n".join(out + ["</svg>", ""])
