"""What several families share: candidate lists, ranked lists, the k-skyband of a batch, and kernels that score rows."""
