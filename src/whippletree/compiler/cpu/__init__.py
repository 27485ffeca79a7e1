"""Kernels on the CPU: SIMD lanes across the batch, called as NumPy ufuncs.

cpu_target       a program as code for this machine, in scalar and vector variants
cpu_memory       how lanes read and write buffers
kept_memory      work space that stays from one call to the next
cpu_arrays       arrays of a call with their strides
result_arrays    results that leave in tiles
result_lists     results that are copied from work space by a list of places
round_rows       rows of memory that rounds of a loop work on, as lanes
copies           transposition between rows and lanes
threads          large batches cut into pieces, which threads share
ufunc            a kernel as a NumPy generalised ufunc
python_call      a function in Python that a program calls
fast_call        one state from Python with as little overhead as possible
cpu_function     a compiled function: variants, shapes, status
export           functions as C source and object files
"""
