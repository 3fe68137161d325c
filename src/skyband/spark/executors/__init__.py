"""State with the executors.

In reading order: run (the driver's part), shards (units), routing (which unit gets what, with hashing), merging (the
step of one unit, with seven for its state), frames (what is late), partial and gather (units' answers become one),
handover (other units than before).
"""
