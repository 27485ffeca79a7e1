"""From generic NumPy code to machine code: front ends make programs, LLVM turns them into kernels, targets call them.

    program          what a back end is asked to emit: blocks, loops, switches over named buffers
    frontend         functions of the table as programs: unrolled, or as loops over bodies
    rollout          many time steps as one program, with controllers, constraints and contacts
    llvm             from a program to LLVM IR and machine code; the cache of object code
    cpu              SIMD lanes across the batch, NumPy ufuncs, single calls, threads, export to C
    cuda             one thread per state on an NVIDIA GPU
    named_function, call_shapes   functions that take a name first; the shapes of a call in messages
    compiled, compiled_table   ``wt.compile``; its functions as type checkers see them
    compiled_programs, compiled_motion   how each function is compiled once; those of motion in time among them
    bound            functions whose open parameters have been given
    casadi           ``wt.symbolic``

The chapter imports ``functions`` and what is below it; ``program``, ``llvm``, ``cpu`` and ``cuda`` know nothing
of robots.
"""
