"""Exit statuses of a run and of the command. Not 1 for a NaN: Python's own tracebacks end with 1."""

FAILED, WRONG_INPUT, NOT_FINITE, STOPPED = 1, 2, 3, 130
