"""Flexible bodies in pictures: bent where they are bent, by the factor that was asked for."""

import numpy as np

import whippletree as wt
from whippletree.view.scene import scene


def test_outline_ends_where_the_frame_is():
    beam = wt.flexible.beam(length=1.0, bending_stiffness=30.0, mass_per_length=0.5, modes=2)
    builder = wt.Builder("arm").flexible_body("beam", beam).joint("root", "revolute", "world", "beam").body("hand", 0.2)
    model = builder.joint("wrist", "weld", "beam/tip", "hand").build()
    q = np.array([0.3, 0.02, -0.01])
    for factor in (1.0, 5.0):
        shown = scene(model, q=q, exaggeration=factor)
        drawn = [
            shown.tracks[item.track].poses for item in shown.items if (item.name, item.layer) == ("beam", "bodies")
        ]
        moved = q * [1, factor, factor]
        tip = wt.reference(model).pose("hand")(moved)
        end = drawn[-1][0] @ [0, 0, 1, 1]
        np.testing.assert_allclose(end[:3], tip[:3, 3], atol=1e-12)
        hand = next(track for track in shown.tracks if track.name == "hand")
        np.testing.assert_allclose(hand.poses[0], tip, atol=1e-12)


def test_pages_of_flexible_runs(tmp_path):
    beam = wt.flexible.beam(length=1.0, bending_stiffness=30.0, mass_per_length=0.5, modes=1)
    model = wt.Builder("arm").flexible_body("beam", beam, start=[0.05]).joint("root", "weld", "world", "beam").build()
    path = wt.export_html(model, None, tmp_path / "page.html", exaggeration=3.0)
    assert path.stat().st_size > 10_000
