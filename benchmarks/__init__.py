"""Comparisons with peers in one run, printed as ratios. Threads wait as they do in the command."""

from regard.system.waiting import adapt_waiting

adapt_waiting()
