"""The memory that the catalog says cards report, against the capacities in public out-of-memory texts.

    python bench/capacity/run.py --data FOLDER --oomproof OOMPROOF

FOLDER holds oom_reports.jsonl, in which some rows name their card. The catalog holds the smallest figure that a Linux
driver was seen to report, so that texts may say up to 2 % more, and Windows what the card is sold with.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

# The card a row names, by how the row begins to write it.
CALLED = {
    "A100 40GB": "a100-40gb",
    "A100 80GB": "a100-80gb",
    "GTX 1060 6GB": "gtx-1060-6gb",
    "H20 96GB": "h20-96gb",
    "RTX 2080 Ti": "rtx-2080-ti",
    "RTX 3090": "rtx-3090",
    "RTX 5080": "rtx-5080",
    "T4 16GB": "t4",
    "V100 16GB": "v100-16gb",
    "V100 32GB": "v100-32gb",
}
# Two decimals of GiB.
ROUNDING = 0.005 * (1 << 30)


def judge(seen: int, card: dict[str, Any]) -> str:
    """Where a capacity lies between the catalog's figure and what the card is sold with."""
    if seen < card["total_bytes"] - ROUNDING:
        return "LESS THAN THE CATALOG SAYS"
    if seen <= card["total_bytes"] * 1.02:
        return "within 2 %"
    if seen <= card["sold_bytes"]:
        return "more, as old drivers and Windows report"
    return "MORE THAN IT IS SOLD WITH"


def main() -> None:
    """Prints a line for each row that names its card."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--oomproof", default="oomproof")
    parser.add_argument("--python", help="not used; `cargo xtask bench` gives it")
    arguments = parser.parse_args()
    listed = subprocess.run([arguments.oomproof, "gpus", "--json"], check=True, capture_output=True, text=True)
    cards = {card["id"]: card for card in json.loads(listed.stdout)["gpus"]}
    form = "{:<6} {:<28} {:>11} {:>11} {:>7}  {}"
    print(form.format("row", "card", "text", "catalog", "", "result"))
    for line in (arguments.data / "oom_reports.jsonl").read_text().splitlines():
        row = json.loads(line)
        total = (row.get("numbers", {}).get("total") or {}).get("bytes")
        named = next((gpu for start, gpu in CALLED.items() if row.get("gpu", "").startswith(start)), None)
        if total is None or named is None:
            continue
        card = cards[named]
        difference = total / card["total_bytes"] - 1
        sizes = [f"{size / (1 << 30):.2f} GiB" for size in (total, card["total_bytes"])]
        print(form.format(row["id"], row["gpu"][:28], *sizes, f"{difference:+.1%}", judge(total, card)))


if __name__ == "__main__":
    main()
