"""What several processes need of a run: rows for each of them, and one directory for all."""

import socket
from pathlib import Path

from regard.runs.directory import is_run
from regard.system.errors import UserError
from regard.system.ranks import World
from regard.training.loop import Loop


def refuse_idle_ranks(loop: Loop) -> None:
    """Refuse more processes than the largest batches have rows: some would never compute."""
    size = loop.world.size
    if size == 1:
        return
    largest = loop.batches.largest(loop.progress.epoch)
    last = World(size - 1, size).rows
    if not any(any(batch.rows(last).counts.values()) for batch in largest.values()):
        raise UserError(
            f"There are {size} processes, and the largest batch ({next(iter(largest))}) has fewer "
            f"rows. Set a larger train.batch_tokens or train.batch_size, which all of them share, "
            f"or start fewer with --nproc-per-node."
        )


def refuse_unseen(out: Path) -> None:
    """Refuse to go on where this process cannot see the directory that rank 0 has created."""
    if not is_run(out):
        raise UserError(
            f"{out} is not there on {socket.gethostname()}, though rank 0 has created it: the run "
            f"directory must be in storage that all machines share. Name such a place with --out."
        )
