"""A module that exits the process on import."""

import sys

sys.exit("the sample has had enough")
