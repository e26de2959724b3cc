"""What every room needs of the machine: files, devices, memory, threads, ranks, and errors."""
