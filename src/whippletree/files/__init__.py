"""Files: written whole or not at all, and read within bounds.

whole_files     a file appears complete or stays as it was
bounded_files   files that somebody else wrote: which may be opened, and how much of them is read
"""
