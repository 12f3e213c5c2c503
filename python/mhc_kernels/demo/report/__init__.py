"""A run's folder of JSON as one page that needs no network: report.html, and its pictures as PNG.

from mhc_kernels.demo import report
report.write(Path("out"))
"""

from mhc_kernels.demo.report.page import MADE, write

__all__ = ["MADE", "write"]
