"""`python -m tools.tidy` compares, `--write` writes down what has been reached, `--sums` prints the sums.

`--write --rise` writes higher sums, too: for a merge, where the reviewer sees them in `numbers.txt`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.tidy.measures import MEASURES, Numbers, measured
from tools.tidy.ratchet import fallen, read, risen, risen_sums, text_of

ROOT = Path(__file__).parents[2]
NUMBERS = ROOT / "tools" / "tidy" / "numbers.txt"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.tidy")
    parser.add_argument("--write", action="store_true", help="write down what has been reached")
    parser.add_argument("--rise", action="store_true", help="with --write: also what has risen")
    parser.add_argument("--sums", action="store_true", help="print the sum of each measure")
    words = parser.parse_args()
    now = measured(ROOT)
    if words.sums:
        for measure, meaning in MEASURES.items():
            print(f"{sum(now[measure].values()):6} in {len(now[measure]):4} files  {meaning}")
        return 0
    if words.write:
        return write(NUMBERS, now, rise=words.rise)
    return compare(read(NUMBERS), now)


def compare(reached: Numbers, now: Numbers) -> int:
    """Say what is not as it is written down; 1 if there is something."""
    higher, lower = list(risen(reached, now)), list(fallen(reached, now))
    for line in higher:
        print(f"rises:  {line}", file=sys.stderr)
    if higher:
        print("mend these; where code has only moved to another file, `make tidy`", file=sys.stderr)
        return 1
    for line in lower:
        print(f"falls:  {line}", file=sys.stderr)
    if lower:
        print(
            "good: `make tidy` writes the lower numbers down, commit them with it", file=sys.stderr
        )
    return 1 if lower else 0


def write(path: Path, now: Numbers, *, rise: bool) -> int:
    """Write the numbers down, unless a sum would rise."""
    higher = list(risen_sums(read(path), now)) if path.exists() else []
    if higher and not rise:
        print("\n".join(higher), file=sys.stderr)
        print("nothing is written: no sum may rise", file=sys.stderr)
        return 1
    path.write_text(text_of(now), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
