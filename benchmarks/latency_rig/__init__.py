"""What ``latency.py`` measures with: a barcode, the servers that show it, and what reads it in the browser."""
