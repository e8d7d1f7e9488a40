"""`bashkit-eval`: models that solve tasks in a sandboxed bash."""
