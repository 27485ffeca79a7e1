"""Studies that regenerate tables and pictures of the documentation: ``python -m studies.NAME``.

``conditioning`` draws the figures of document 004, extended, and tells the predicted error of every route beside the
measured one. ``tolerances`` lists every number that decides something. ``layout`` counts modules, importers and names;
``programs`` lists the kernel programs of a few mechanisms with their hashes, to compare two commits.
"""
