"""What benchmarks/dream.py measures, one question a file."""
