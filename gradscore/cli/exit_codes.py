"""What the exit code of a command says; 2, the user's mistake, stands with the errors themselves."""

DONE = 0
OUR_BUG = 1
USER_MISTAKE = 2
ROWS_FAILED = 3
"""Done, but some rows were unreadable or gave non-finite numbers."""
INTERRUPTED = 130
TERMINATED = 143
