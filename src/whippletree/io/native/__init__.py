"""This library's own files, ``.toml`` and ``.json``: everything that a model can say, read back exactly.

native_tables   the tables and their fields
native_reader   text to model, all faults at once with their lines
native_writer   model to text
"""
