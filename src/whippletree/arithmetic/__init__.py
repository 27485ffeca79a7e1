"""Arithmetic that never asks what its scalars are: floats, fractions, mpmath, complex, symbols and traced numbers.

All other chapters use only these few operations, so that one source is the reference, the exact oracle and the input
of the compiler. Read in this order:

    arrays             vectors and matrices of any scalar
    numpy_protocol     NumPy's functions on these scalars
    scalars            sine, cosine, square root, exponential, select
    dual_numbers       x + ẋ ε: derivatives along a direction
    iteration          rounds that end when they are done, the one way to branch on a value
    linalg             small factorisations: Cholesky, LDLᵀ, LU and QR with pivots
    condition          κ₂ of a matrix on any scalar
    second_order       rounding errors beyond the first order: products of errors
    rounding_tape      doubles that remember how they were computed: bounds on rounding; and long doubles, to see what
                       rounding has done
    lanes              many floats that behave as one scalar
    garbage            the garbage collector paused while many small objects are made
    user_functions     a user's NumPy function called with any of them
    trace              the scalar that records: expression graphs, their passes and derivatives

It imports ``errors`` and nothing else of this library.
"""
