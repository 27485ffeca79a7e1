"""Sphinx's settings; ``make docs`` builds the pages, and a warning is an error."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from whippletree import __version__

project = "Whippletree"
author = "The Whippletree developers"
copyright = "The Whippletree developers"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
extensions += ["catalogue_table", "gallery", "mathml"]  # our own, in _extensions
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence", "attrs_block"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "_extensions"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_math_renderer = "mathml"
html_title = f"Whippletree {__version__}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
pygments_style = "friendly"
pygments_dark_style = "monokai"
