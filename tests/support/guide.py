"""Reads the pages of the guide (docs/guide) and the README: files, commands, and expected output of these.

A fenced block with the language `sh` contains commands, as a reader would type them one after the other. They
run in the same folder as the earlier blocks of the page. The `text` block that follows contains expected
lines. Each has to be part of a line of the output, in this order; ` ... ` matches anything. Words after the
language have these meanings:

| word | meaning |
|---|---|
| `file=NAME` (any language) | the block is a file of that name, which is there from here on |
| `status=N` | the last command has to end with this status; the others, as all without the word, with 0 |
| `hosts=N` | the commands run on the first of N hosts n0, n1, ...; `$AGENT` reaches the others as ssh would |
| `with=NAME` | the commands run where `make public` (`make python`) has built NAME; a variable of that name says where it is, and its `bin` is in PATH |
| `manager=slurm` (with `hosts`) | the hosts are a cluster of Slurm, and the commands run on its first host |
| `needs=NAME` | the commands run where that language is installed; `$TUTTI` is Tutti's source, `$PREFIX` where it is installed |
| `stand-in=NAME` | there is a command of that name, from tests/support/guide_commands: for what cannot be installed for a test |
"""

import re
from dataclasses import dataclass, field

from harness import ROOT

PAGES = ROOT / "docs" / "guide" / "src"
FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.M | re.S)


@dataclass
class Block:
    """A fenced block of a page: its language, the words after that, its text, and the number of its first
    line."""

    page: str
    line: int
    language: str
    words: dict
    text: str
    expected: list = field(default_factory=list)

    def __str__(self):
        return f"{self.page}:{self.line}"

    def status(self):
        """Returns the status with which the last command has to end."""
        return int(self.words.get("status", 0))


def blocks(page):
    """Returns the blocks of a page. Those of `text` belong to the commands before them."""
    found = []
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        language, *words = match[1].split(",")
        pairs = dict(word.partition("=")[::2] for word in words)
        block = Block(page.stem, text.count("\n", 0, match.start()) + 1, language, pairs, match[2])
        if language == "text" and found and found[-1].language == "sh":
            found[-1].expected = block.text.splitlines()
        found.append(block)
    return found


def pages():
    """Returns all pages, in the order of SUMMARY.md."""
    names = re.findall(r"\]\(([^)]+\.md)\)", (PAGES / "SUMMARY.md").read_text(encoding="utf-8"))
    return [PAGES / name for name in names]


def broken_links(page):
    """Returns the relative links of a page whose file, or whose heading in that file, does not exist."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, heading = link.partition("#")
        if re.match(r"[a-z]+:", name):
            continue
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or heading and heading not in headings(target):
            broken.append(link)
    return broken


def headings(page):
    """Returns the anchors of a page's headings, as mdBook and GitHub form them."""
    lines = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", line.lower()).strip().replace(" ", "-") for line in lines}


def missing(expected, output):
    """Returns the first of the expected lines that is missing at its place in the order."""
    lines = iter(output.splitlines())
    for wanted in expected:
        pattern = re.compile(".*".join(map(re.escape, wanted.split(" ... "))))
        if not any(pattern.search(line) for line in lines):
            return wanted
    return None
