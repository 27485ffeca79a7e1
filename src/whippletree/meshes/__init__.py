"""Mesh files: STL, OBJ and Collada read in bounded time, once for pictures and for contact."""
