"""Kernels on NVIDIA GPUs: one thread per state, or two, the CPU's bits.

driver            the CUDA driver through ctypes
cuda_arrays       arrays on the card, and those of other libraries
cuda_function     a function of the table on the card: compiling, loading, launching
ptx_target        a program as PTX;  ptx_memory: its buffers
staging           arrays in shared memory on their way in and out
listed_matrices   results that are copied from work space by a list of places
walks             loops over many numbers of one sort
thread_pairs      two limbs of a state on two threads
split, tuning     very long kernels in parts; the form that suits a card
"""
