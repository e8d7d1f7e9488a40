"""A module that cannot be imported."""

raise RuntimeError("this module was never tried")
