"""`python -m mosaico`: the program `mosaico`."""

from app.programs import mosaico

mosaico()
