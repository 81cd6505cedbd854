"""What ``make coverage`` prints: the shares of lines and branches that the tests run, and the files with too few lines.

coverage json -o FIGURES && python tests/coverage_figures.py FIGURES
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ENOUGH = 95.0  # percent of a file's lines


def main(figures: Path) -> None:
    measured = json.loads(figures.read_text())
    total = measured["totals"]
    print(f"lines     {total['percent_statements_covered']:5.1f}% of {total['num_statements']}")
    print(f"branches  {total['percent_branches_covered']:5.1f}% of {total['num_branches']}")
    shares = sorted((file["summary"]["percent_statements_covered"], name) for name, file in measured["files"].items())
    below = [(share, name) for share, name in shares if share < ENOUGH]
    print(f"{len(below)} of {len(shares)} files below {ENOUGH:.0f}% of lines{':' if below else ''}")
    for share, name in below:
        print(f"  {share:5.1f}%  {name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
