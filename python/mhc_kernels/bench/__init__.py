"""Benchmarks of the front ends, side by side in one process: python -m mhc_kernels.bench --help."""
