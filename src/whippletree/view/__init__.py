"""Pictures, plots, a live page and a replay of models and runs.

    scene         a model and its states as meshes that move, independent of who draws them
    plots         figures with matplotlib: ``wt.plot``
    live          a page in the browser with viser, and which requests it answers: ``wt.show``
    driven        a live page whose sliders command a model that is being simulated
    replay        one HTML file that needs no network and no extra package: ``wt.export_html``, ``wt.replay``
    film          a GIF or MP4: ``wt.export_film``
    notebook, picture_figure   what notebooks show of models, pages and figures
    conditioning_figure, gallery       conditioning over time; pictures, replays and data of several runs
    items, shape_meshes, solids, sticks, overlays                      the things in a scene
    pose_series, camera, style, painter, strobe, curves, page_curves   how they move and look

Only the command line imports this chapter.
"""
