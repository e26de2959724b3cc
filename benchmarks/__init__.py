"""Side by side with peers in one run; prints ratios. Under the policy that the command has too."""

from regard.system.waiting import wait_asleep

wait_asleep()
