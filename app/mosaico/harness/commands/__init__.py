"""Commands that both harnesses have: run, show and view, and the progress of a run."""
