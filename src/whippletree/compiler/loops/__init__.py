"""Loops over bodies: the generic algorithms as kernel programs whose size does not grow with the system.

The path from an algorithm to a program, one module each:

* :mod:`~whippletree.compiler.loops.values`: values taken apart into numbers and put together again;
* :mod:`~whippletree.compiler.loops.bodytypes`: bodies sorted into types that share code, and the table of constants;
* :mod:`~whippletree.compiler.loops.crossing`: which numbers really cross the edges of the tree;
* :mod:`~whippletree.compiler.loops.recorder`: :class:`Looped`, the sweeper that traces every step once per type;
* :mod:`~whippletree.compiler.loops.posts`: single bodies, and what is computed once between the loops;
* :mod:`~whippletree.compiler.loops.storage`: what later loops load and what they compute again;
* :mod:`~whippletree.compiler.loops.slots`: where numbers live;
* :mod:`~whippletree.compiler.loops.assembly`: the program;
* :mod:`~whippletree.compiler.loops.mechanism`: functions of the catalogue.
"""

from whippletree.compiler.loops.assembly import assemble
from whippletree.compiler.loops.mechanism import loop_program, work_size
from whippletree.compiler.loops.recorder import Looped

__all__ = ["Looped", "assemble", "loop_program", "work_size"]
