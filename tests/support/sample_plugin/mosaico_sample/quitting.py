"""A module that wants to end whoever imports it."""

import sys

sys.exit("the sample has had enough")
