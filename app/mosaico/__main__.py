"""`python -m mosaico`: the program `mosaico`."""

from mosaico.programs import mosaico

mosaico()
