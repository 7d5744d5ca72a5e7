"""``python -m crowdfield``: the command line, where its own command is not on the path."""

from crowdfield.cli import main

main()
