"""The embedded database: find its programs, make it, start it, share it, recover it, stop it."""
