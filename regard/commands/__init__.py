"""The command line: one file per group of commands; heavy imports stand inside the commands."""
