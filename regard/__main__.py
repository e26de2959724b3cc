"""`python -m regard` is `regard`."""

from regard.commands.app import main

main()
