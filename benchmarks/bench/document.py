"""Puts what was measured into a document: what stands between `<!-- measured: NAME -->` and `<!-- end -->`."""

import re

BLOCK = re.compile(r"(<!-- measured: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def filled(text, blocks):
    """The text with the blocks that there are; others stay as they are."""
    return BLOCK.sub(lambda found: found[1] + "\n" + blocks[found[2]].rstrip() + "\n\n" + found[4] if found[2] in blocks else found[0], text)


def fill(path, blocks):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(filled(text, blocks))
