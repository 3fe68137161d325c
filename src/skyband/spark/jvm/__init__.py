"""The JVM and what only it can reach: Hadoop's file systems.

In reading order: private (everything of PySpark that is not public), hadoop (files in HDFS, S3 and other stores), paths
(folders of a disk and URIs of a store), files (whole files, written atomically).
"""
