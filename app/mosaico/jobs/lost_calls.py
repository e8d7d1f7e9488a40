"""Why a call in a child process has no result; who computes in its own process needs no pool to name it."""


class CallLost(Exception):
    """A call in a child process ended without a result."""


class CallTimeout(CallLost):
    """A call exceeded its time limit, and its child process was killed."""


class ChildExited(CallLost):
    """A child process exited during a call."""


class OutOfMemory(CallLost):
    """A call exceeded the memory limit, and its child process was replaced."""


class PoolClosed(CallLost):
    """The pool is closed and accepts no calls."""
