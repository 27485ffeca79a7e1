"""Pictures, plots, a live page and a replay of models and runs. Only the command line imports this package.

scene       a model and its states as meshes that move, independent of who draws them
plots       figures with matplotlib: ``wt.plot``
live        a page in the browser with viser: ``wt.show``
replay      one HTML file that needs no network and no extra package: ``wt.export_html``
"""
