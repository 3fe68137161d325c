"""The version of the rules by which rows are accepted.

Each step in a journal carries the version under which it was taken, and is repeated under it.

    0   types stay as the first values made them; a row far ahead is rejected (steps written before there was a version)
    1   types widen; no column is added to a stream beyond 4,096
    2   an advance further ahead than max_ahead is an error
    3   a row further ahead than max_ahead waits
"""

WIDENING, BOUNDED, WAITING = 1, 2, 3
RULES = 3
