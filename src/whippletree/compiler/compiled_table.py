"""The functions of ``wt.compile`` as editors and type checkers see them: see the stub beside this file.

The stub is generated from the table (``make stubs``); a test holds the two together.
"""


class CompiledTable:
    """Base of what ``wt.compile`` returns. Its functions come from the table when they are asked for."""
