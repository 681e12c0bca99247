"""What `cloister doctor` prints, for tests that look for whole sentences."""

import re


def joined(done):
    """The CompletedProcess with the lines of each row in one; see supervisor/cli/row.c."""
    done.stdout = re.sub(r"\n {23}(?=\S)", " ", done.stdout)
    return done
