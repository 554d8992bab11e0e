"""What to compute: records, configuration, data, verifiers, algorithms. Never where it runs."""
