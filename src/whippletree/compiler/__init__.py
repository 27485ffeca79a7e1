"""From generic NumPy code to machine code: kernel programs, emitters, ufuncs and the cache of object code."""
