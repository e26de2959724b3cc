"""The loop, the loss, schedules, optimisers, checkpoints. Knows no model."""
