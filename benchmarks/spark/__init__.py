"""The pipeline on Spark, beside what Spark takes to read the same files.

- experiment.py: the figures and the page; measure.py: the runs that they are made from;
- cluster.py: processor time on a standalone cluster, which standalone.py starts (for tests, too);
- reach.py: how far it goes, by workers and queries, with a model (docs/how-far.md);
- nearest.py, records.py, state.py, watch.py: one part each.
"""
