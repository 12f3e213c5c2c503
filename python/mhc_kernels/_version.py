"""The version of this package, of the library inside it, and of the names of its FFI targets."""

__version__ = "0.1.0"
