"""The value of a formula in one run or two, as a sum over items."""
