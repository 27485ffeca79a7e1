"""Studies that regenerate tables and pictures of the documentation: ``python -m studies.NAME``.

``conditioning`` draws the figures of document 004, extended, and tells the predicted error of every route beside the
measured one. ``tolerances`` lists every number that decides something.
"""
