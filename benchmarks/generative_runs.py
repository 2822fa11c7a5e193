"""The real runs of the generative recipes on one GPU, in pieces that fit a time limit and resume.

    python benchmarks/generative_runs.py --list
    python benchmarks/generative_runs.py --out runs --minutes 28     # again and again, until it says that all is done

Commands run in order; when the time is over the one at work is interrupted as by Ctrl-C, and the next call resumes it
from its checkpoints. Finished runs are skipped. Then: winze runs keep --out runs.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import sys
import time

GRACE = 90  # seconds for a command to store what it has
GPU = "--scale gpu --jobs 7 --compile"
PLAN = (
    f"decayed/mae_alpha {GPU} --at data=cifar10 --at alpha=1.0,0.6 --seeds 0,1,2",
    f"decayed/mae_skips {GPU} --at data=cifar10 --seeds 0,1,2",
    f"decayed/mae_alpha {GPU} --at data=cifar10 --at alpha=0.8,0.7,0.5 --seeds 0",
    f"decayed/diffusion {GPU} --at labels=none --at alpha=1.0,0.6 --seeds 0,1,2",
    f"decayed/mae_rules {GPU} --seeds 0",
    f"decayed/mae_rank {GPU} --seeds 0,1,2",
    f"decayed/mae_alpha {GPU} --at data=tinyimagenet100 --at alpha=1.0,0.6 --seeds 0,1,2",
    f"decayed/mae_skips {GPU} --at data=tinyimagenet100 --seeds 0",
    f"decayed/mae_maps {GPU} --seeds 0",
    f"decayed/diffusion {GPU} --at labels=none --at alpha=0.8,0.7 --seeds 0",
    f"decayed/diffusion {GPU} --at labels=classes --seeds 0",
    f"decayed/mae_settings {GPU} --seeds 0",
    "decayed/mae_alpha --scale paper --jobs 6 --compile --at data=cifar10 --at alpha=1.0,0.6 --seeds 0,1,2",
)
"""What is run, the main contrasts first; the last line trains for 800 epochs."""


def main() -> None:
    """Run the plan, or as much of it as the time allows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="runs", help="folder of runs")
    parser.add_argument("--minutes", type=float, default=28, help="time limit")
    parser.add_argument("--first", type=int, default=1, help="number of the command to begin with")
    parser.add_argument("--list", action="store_true", help="print the commands and end")
    args = parser.parse_args()
    commands = [f"winze run {one} --out {shlex.quote(args.out)}" for one in PLAN]
    if args.list:
        print("\n".join(f"{number:2d}  {one}" for number, one in enumerate(commands, 1)))
        return
    until = time.monotonic() + 60 * args.minutes
    for number, command in enumerate(commands[args.first - 1 :], args.first):
        print(f"{number:2d}  {command}", flush=True)
        code = run(shlex.split(command)[1:], until)
        if code == 130:
            sys.exit(f"the time is over at command {number} of {len(commands)}; call again to resume")
        if code:
            sys.exit(f"command {number} failed with exit code {code}")
    print("all runs are done: winze runs keep --out", args.out)


def run(words: list[str], until: float) -> int:
    """The exit code of one command, which is interrupted when the time is over; 130 then."""
    process = subprocess.Popen([sys.executable, "-m", "winze", *words])
    try:
        return process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return 130


if __name__ == "__main__":
    main()
