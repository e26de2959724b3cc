"""How long `regard --help` takes, against Python itself and `import torch`.

python -m benchmarks.startup                     (about half a minute)
"""

import argparse
import statistics
import subprocess
import sys
import time
from operator import truediv

from benchmarks.interleave import print_table

COMMANDS = {
    "`python -c pass`": ["-c", "pass"],
    "`regard --help`": ["-m", "regard", "--help"],
    '`python -c "import torch"`': ["-c", "import torch"],
}


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(12):
        for name, arguments in COMMANDS.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
            seconds[name].append(time.perf_counter() - began)
    help_command = seconds["`regard --help`"]
    print_table(
        ["command", "seconds", "`regard --help` takes"],
        [
            [
                name,
                f"{statistics.median(times):.2f}",
                f"{statistics.median(map(truediv, help_command, times)):.2f}×",
            ]
            for name, times in seconds.items()
        ],
    )


if __name__ == "__main__":
    main()
