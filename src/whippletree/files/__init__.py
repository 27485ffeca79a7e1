"""Files: written whole or not at all, read within bounds, and kept for the next process.

whole_files     a file appears complete or stays as it was
bounded_files   files that somebody else wrote: which may be opened, and how much of them is read
cache           what took long to make: object code, convex pieces of meshes
"""
