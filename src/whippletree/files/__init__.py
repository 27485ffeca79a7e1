"""Files: written whole or not at all, read within bounds, and kept for the next process.

whole_files     a file appears complete or stays as it was
bounded_files   files from elsewhere: which may be opened, and how much of them is read
cache           results that took long to compute: object code, convex pieces of meshes
"""
