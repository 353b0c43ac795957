"""Names of kernels: demangled, shortened, and made one across tools."""
