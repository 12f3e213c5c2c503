"""Kernels for manifold-constrained hyper-connections (mHC), forward and backward, on CPUs.

    import mhc_kernels as mhc
    import mhc_kernels.jax as mj        # needs JAX; this package itself does not

Formulas: mHC, arXiv 2512.24880; mHC-lite, arXiv 2601.05732.

>>> import mhc_kernels as mhc
>>> spec = mhc.Spec.preset("maxtext_lite")
>>> spec.manifold, spec.logits, spec.coefficients
(Permutation(), 24, 32)
>>> spec.replace(streams=2).coefficients
6
"""

from mhc_kernels._info import info
from mhc_kernels._version import __version__
from mhc_kernels.manifolds import Identity, Permutation, Sinkhorn, Unconstrained
from mhc_kernels.spec import Spec

__all__ = ["Identity", "Permutation", "Sinkhorn", "Spec", "Unconstrained", "__version__", "info"]
