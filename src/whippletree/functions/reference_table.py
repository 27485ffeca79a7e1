"""The functions of ``wt.reference`` as editors and type checkers see them: see the stub beside this file.

The stub is generated from the table (``make stubs``); a test holds the two together.
"""


class ReferenceTable:
    """Base of what ``wt.reference`` returns. Its functions come from the table when they are asked for."""
