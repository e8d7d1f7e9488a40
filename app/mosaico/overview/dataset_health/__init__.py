"""The health of a dataset: items that tell nothing, that flip, that are there twice, or whose expected answer is wrong."""
