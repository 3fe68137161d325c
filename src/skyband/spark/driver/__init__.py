"""State in the driver.

In reading order: run (a pipeline from its start to its stop), engine (the monitor between micro-batches), checkpoint
(what lasts), sifting (what its tasks do), shown (answers as the output has them), placement (which of the two), asking
(other queries while it runs).
"""
