"""The command line of ot-bench: its commands, one run, and the choice of benchmark files."""
