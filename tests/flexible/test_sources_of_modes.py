"""Beams, finite elements and files: frequencies against closed forms, bases against each other, and bad input."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.io

import whippletree as wt
from whippletree.errors import FileError, ModelError

L, EI, RHO = 1.5, 2100.0, 0.8
UNIFORM = {"length": L, "bending_stiffness": EI, "mass_per_length": RHO}


def frequencies(model):
    """rad/s, of small motions about the home state, where nothing moves."""
    ref, q, zero = wt.reference(model), model.home.q, np.zeros(model.nv)
    elastic = [-ref.passive_forces(q + e, zero) for e in np.eye(model.nv)]
    K = np.array(elastic).T + ref.gravity_derivatives(q)
    return np.sort(np.sqrt(np.linalg.eigvals(np.linalg.solve(ref.mass_matrix(q), K)).real))


@pytest.mark.parametrize(
    ("ends", "roots"),
    [  # reference problems, §11
        ("clamped-free", [1.875104068711961, 4.694091132974175, 7.854757438237613]),
        ("clamped-clamped", [4.730040744862704, 7.853204624095838]),
        ("free-free", [4.730040744862704, 7.853204624095838]),
        ("clamped-pinned", [3.926602312047919, 7.068582745628732]),
        ("pinned-pinned", [np.pi, 2 * np.pi, 3 * np.pi]),
        ("sliding-pinned", [np.pi / 2, 3 * np.pi / 2]),
    ],
)
def test_roots_of_the_frequency_equation(ends, roots):
    modes = wt.flexible.bending_modes(3, **UNIFORM, ends=ends)
    found = [np.sqrt(mode.omega * np.sqrt(RHO / EI)) * L for mode in modes]
    np.testing.assert_allclose(found[: len(roots)], roots, rtol=1e-9)


def test_a_tip_mass_equal_to_the_beams():
    """βL = 1.2479174096065, 4.031139436715; the mass is welded to the bent frame."""
    beam = wt.flexible.beam(**UNIFORM, modes=6, ends="clamped-interface")
    builder = wt.Builder("loaded", (0, 0, 0)).flexible_body("beam", beam).body("load", RHO * L)
    model = builder.joint("root", "weld", "world", "beam").joint("end", "weld", "beam/tip", "load").build()
    found = frequencies(model)[:2]
    np.testing.assert_allclose(np.sqrt(found * np.sqrt(RHO / EI)) * L, [1.2479174096065, 4.031139436715], rtol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("shear", [None, 1e6])
def test_interfaces_are_exact_in_statics(shear):
    """A tip force bends a cantilever by L³/3EI + L/kGA, whichever end is the interface; frequencies are close."""
    given = UNIFORM | {"shear_stiffness": shear}
    for ends, at in (("clamped-interface", L), ("interface-clamped", 0.0)):
        modes = wt.flexible.bending_modes(5, **given, ends=ends)
        bend = sum(mode.field(at) ** 2 / mode.omega**2 for mode in modes)
        np.testing.assert_allclose(bend, L**3 / (3 * EI) + (L / shear if shear else 0), rtol=1e-9)
        exact = wt.flexible.bending_modes(1, **given, ends="clamped-free")[0].omega
        assert 0 <= modes[0].omega / exact - 1 < 1e-4
    both = wt.flexible.bending_modes(8, **given, ends="interface-interface")
    free = wt.flexible.bending_modes(2, **given, ends="free-free")
    np.testing.assert_allclose([m.omega for m in both[:2]], [m.omega for m in free], rtol=1e-3)


def test_timoshenko_pinned_beam_against_its_closed_form():
    """Pinned ends: w = sin kx, θ = Θ cos kx solve the equations, and ω is a root of a quadratic."""
    shear, rotary = 3e5, 2e-3
    modes = wt.flexible.bending_modes(2, **UNIFORM, ends="pinned-pinned", shear_stiffness=shear, rotary_inertia=rotary)
    for number, mode in enumerate(modes, start=1):
        k = number * np.pi / L
        a, b, c = RHO * rotary, -(RHO * (shear + EI * k**2) + rotary * shear * k**2), shear * EI * k**4
        exact = (-b - np.sqrt(b * b - 4 * a * c)) / (2 * a)
        assert abs(mode.omega**2 / exact - 1) < 1e-9


def test_rods_that_stretch_and_twist():
    body = wt.flexible.beam(
        **UNIFORM, modes={"x": 2, "twist": 2}, axial_stiffness=5e5, torsional_stiffness=80.0, polar_inertia=4e-3
    )
    speeds = np.sqrt(5e5 / RHO), np.sqrt(80.0 / 4e-3)
    exact = sorted(c * (2 * k + 1) / (4 * L) for c in speeds for k in (0, 1))
    np.testing.assert_allclose(body.frequencies, exact, rtol=1e-9)


def test_two_bases_of_one_space_give_one_motion():
    """Clamped modes on a hinge, chord modes on a hinge: of one polynomial space of shapes they are the same body."""
    powers = {"a": [lambda x: (x / L) ** 2, lambda x: (x / L) ** 3], "b": None}
    powers["b"] = [lambda x: (x / L) ** 2 - x / L, lambda x: (x / L) ** 3 - x / L]
    states = []
    for shapes in powers.values():
        beam = wt.flexible.beam(**UNIFORM, shapes={"y": shapes})
        builder = wt.Builder("swing", (0.0, -9.81, 0.0)).flexible_body("beam", beam)
        model = builder.joint("pin", "revolute", "world", "beam").build()
        # the linear response of the tip to a force there, and to gravity, from the same straight state at rest
        ref = wt.reference(model)
        q, zero = model.home.q, np.zeros(model.nv)
        a = ref.forward_dynamics(q, zero, zero)
        states.append([*(ref.jacobian("beam/tip")(q) @ a), *np.ravel(ref.operational_inertia_inverse("beam/tip")(q))])
    np.testing.assert_allclose(states[0], states[1], rtol=1e-9, atol=1e-9)


SECTION = wt.flexible.Section(RHO, 1e6, (EI, 2 * EI), 500.0, 1e-3)


def test_craig_and_bampton_meet_the_beam():
    nodal = wt.flexible.frame_of_beams([[0, 0, 0], [L, 0, 0]], [(0, 1, SECTION)], elements=12)
    body = wt.flexible.craig_bampton(nodal, {"root": 0, "tip": 1}, root="root", modes=14)
    exact = wt.flexible.beam(
        length=L, bending_stiffness=(EI, 2 * EI), mass_per_length=RHO, modes={"y": 2, "z": 2}, polar_inertia=1e-3
    )
    np.testing.assert_allclose(body.frequencies[:4], exact.frequencies, rtol=2e-4)
    np.testing.assert_allclose(
        body.integrals.rigid().rotation.astype(float),
        exact.integrals.rigid().rotation.astype(float),
        rtol=1e-9,
        atol=1e-12,
    )
    np.testing.assert_allclose(np.abs(body.integrals.shapes[0]), np.abs(exact.integrals.shapes[0]), atol=1e-4)
    np.testing.assert_allclose(np.abs(body.frame("tip").slopes[0]), np.abs(exact.frame("tip").slopes[0]), atol=1e-3)
    # statics is exact with interface modes: a force at the tip bends it by L³ / 3EI
    phi = body.frame("tip").shapes
    flexibility = phi.T @ np.linalg.solve(body.stiffness, phi)
    np.testing.assert_allclose(np.diag(flexibility), [L / 1e6, L**3 / (3 * EI), L**3 / (6 * EI)], rtol=1e-9)


def test_a_free_body_in_its_mean_axes():
    nodal = wt.flexible.frame_of_beams([[0, 0, 0], [L, 0, 0]], [(0, 1, SECTION)], elements=12)
    body = wt.flexible.craig_bampton(nodal, {"root": 0, "tip": 1}, modes=14)
    assert np.abs(body.integrals.shapes.astype(float)).max() < 1e-6
    assert np.abs(body.integrals.moments.astype(float)).max() < 1e-6
    exact = wt.flexible.beam(**UNIFORM, modes=1, ends="free-free").frequencies[0]
    assert abs(body.frequencies[0] / exact - 1) < 1e-3


def test_portal_frame_by_symmetry():
    """A portal of three beams, held at both feet by its root: it sways before it does anything else."""
    points = [[0, 0, 0], [0, 1, 0], [1, 1, 0], [1, 0, 0]]
    nodal = wt.flexible.frame_of_beams(points, [(0, 1, SECTION), (1, 2, SECTION), (2, 3, SECTION)], elements=4)
    body = wt.flexible.craig_bampton(nodal, {"feet": [0, 3], "corner": 1}, root="feet", modes=4)
    builder = wt.Builder("portal", (0, -9.81, 0)).flexible_body("portal", body)
    model = builder.joint("ground", "weld", "world", "portal").build()
    assert model.nv == body.n
    assert body.frequencies[0] > 1
    pose = body.frame("feet").pose
    np.testing.assert_allclose(pose[:3, 3], 0, atol=1e-15)


# --- files ------------------------------------------------------------------------------------------------------------


def written(tmp_path, nodal):
    """The body as CalculiX and as Matrix Market would have it."""
    lower = nodal.stiffness.tocoo(), nodal.mass.tocoo()
    for suffix, A in zip((".sti", ".mas"), lower):
        lines = [f"{i + 1} {j + 1} {x:.17e}" for i, j, x in zip(A.row, A.col, A.data) if i >= j]
        (tmp_path / f"arm{suffix}").write_text("\n".join(lines))
    (tmp_path / "arm.dof").write_text("\n".join(f"{a + 10}.{b + 1}" for a, b in nodal.freedoms))
    table = "\n".join(f"{k + 10}, {x:.17g}, {y:.17g}, {z:.17g}" for k, (x, y, z) in enumerate(nodal.points))
    (tmp_path / "arm.inp").write_text(f"*HEADING\narm\n*NODE, NSET=all\n{table}\n*ELEMENT\n1, 10, 11\n")
    (tmp_path / "nodes.txt").write_text("node x y z\n" + table.replace(",", " "))
    for name, A in (("K", nodal.stiffness), ("M", nodal.mass)):
        scipy.io.mmwrite(tmp_path / f"{name}.mtx", A, precision=17)


def test_files_of_finite_elements(tmp_path):
    nodal = wt.flexible.frame_of_beams([[0, 0, 0], [L, 0, 0]], [(0, 1, SECTION)], elements=4)
    written(tmp_path, nodal)
    fortran = (tmp_path / "arm.mas").read_text().replace("e", "D").replace(" ", ", ")
    (tmp_path / "arm.mas").write_text(fortran)
    bodies = [wt.flexible.craig_bampton(nodal, {"root": 0, "tip": 1}, root="root", modes=3)]
    for found in (
        wt.flexible.read_calculix(tmp_path / "arm", tmp_path / "arm.inp"),
        wt.flexible.read_calculix(tmp_path / "arm.sti", tmp_path / "nodes.txt"),
        wt.flexible.read_matrix_market(tmp_path / "K.mtx", tmp_path / "M.mtx", tmp_path / "nodes.txt"),
    ):
        bodies.append(wt.flexible.craig_bampton(found, {"root": 10, "tip": 11}, root="root", modes=3))
    for body in bodies[1:]:
        np.testing.assert_allclose(body.frequencies, bodies[0].frequencies, rtol=1e-9)
        assert abs(body.integrals.mass / bodies[0].integrals.mass - 1) < 1e-12


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("arm.sti", "1 1 nan", "line 1: .* is not finite"),
        ("arm.sti", "1 9999 2.0", "of 30 freedoms"),
        ("arm.sti", "1 1 3.0\n1 2 2.0\n2 1 2.0", "line 2: row 1, column 2 is there twice, as it is or transposed"),
        ("arm.mas", "1.5 1 2.0", "line 1: rows and columns are whole numbers"),
        ("arm.mas", "", "the file is empty"),
        ("arm.sti", "1 2", "lines have 2 numbers"),
        ("arm.dof", "10.1\nten.2", r"line 2: expected node\.direction"),
        ("arm.dof", "77.1", "there is no node 77 in the node table"),
        ("nodes.txt", "10 0 0 inf", "expected a node and three finite numbers"),
        ("nodes.txt", "10 0 0 0\n10 1 0 0", "node 10 is there twice"),
    ],
)
def test_damaged_files_of_finite_elements(tmp_path, file, text, message):
    written(tmp_path, wt.flexible.frame_of_beams([[0, 0, 0], [L, 0, 0]], [(0, 1, SECTION)], elements=4))
    (tmp_path / file).write_text(text)
    with pytest.raises(FileError, match=message):
        wt.flexible.read_calculix(tmp_path / "arm", tmp_path / "nodes.txt")


def spatial_beam(**options):
    return wt.flexible.beam(
        length=1.0, bending_stiffness=(30.0, 20.0), mass_per_length=0.5, modes={"y": 2, "z": 1}, polar_inertia=1e-3,
        rotary_inertia=(1e-4, 2e-4), damping_ratio=0.01, **options,
    )  # fmt: skip


def flexible_model(body):
    builder = wt.Builder("saved").flexible_body("beam", body, start=[0.01, 0.02, -0.01]).body("hand", 0.3)
    builder.joint("root", "revolute", "world", "beam", axis=(0, 1, 0)).joint("wrist", "revolute", "beam/tip", "hand")
    return builder.joint("side", "weld", "beam", "plate").body("plate", 0.1, inertia=(1e-3,) * 3).build()


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_models_with_flexible_bodies_are_saved_exactly(tmp_path, suffix):
    model = flexible_model(spatial_beam(stiffening=True))
    path = tmp_path / f"model.{suffix}"
    wt.save(model, path)
    again = wt.load(path)
    v = np.linspace(-1, 1, model.nv)
    for name in ("bias", "kinetic_energy"):
        one, other = (getattr(wt.reference(m), name)(m.home.q, v) for m in (model, again))
        assert np.array_equal(one, other)
    assert np.array_equal(*[wt.reference(m).passive_forces(m.home.q, v) for m in (model, again)])
    assert again.joints[again.joint_index("beam/modes")].flexible.modes == ("y1", "y2", "z1")


def test_archives_of_a_body(tmp_path):
    body = spatial_beam(stiffening=True)
    wt.flexible.save_body(body, tmp_path / "beam.npz")
    again = wt.flexible.load_body(tmp_path / "beam.npz")
    assert all(np.array_equal(a, b) for a, b in zip(body.integrals, again.integrals))
    assert [frame.name for frame in again.frames] == ["root", "tip"]
    assert again.modes == body.modes
    (tmp_path / "bad.npz").write_bytes((tmp_path / "beam.npz").read_bytes()[:200])
    with pytest.raises(FileError, match="no archive of a flexible body"):
        wt.flexible.load_body(tmp_path / "bad.npz")


FULL, SYMMETRIC, UNIT = 3, 2, 4


def sid_section(name, m0=None, m1=None, structure=FULL):
    """A section in the layout that FEMBS writes: zeros left out, exponents D, the mode in the middle of m1."""
    shape = np.shape(m0) if m0 is not None else np.shape(m1)[::2]
    modes = 0 if m1 is None else np.shape(m1)[1]
    head = {"order": int(m1 is not None), "nrow": shape[0], "ncol": shape[1], "nq": modes, "nqn": 0}
    lines = [f"   {name}    ", *[f"      {word:20} = {x:4d}" for word, x in {**head, "structure": structure}.items()]]
    for order, A in (("m0", m0), ("m1", m1)):
        for index, x in [] if A is None or structure == UNIT else np.ndenumerate(np.asarray(A, dtype=float)):
            if x and not (structure == SYMMETRIC and index[0] > index[1]):
                at = ",".join(f"{k + 1:2d}" for k in index)
                lines.append(f"      {order}({at})          ={x: .17E}".replace("E", "D"))
    return [*lines, f"   end {name}   "]


def sid_text(body):
    """A body as standard input data, first-order terms included."""
    given, n = body.integrals, body.n

    def six(J):
        return np.stack([J[..., 0, 0], J[..., 1, 1], J[..., 2, 2], J[..., 0, 1], J[..., 0, 2], J[..., 1, 2]])

    lines = [f"    {len(body.frames)}   {n}    :No. nodes, No. modes:SID generated by hand, Geo_Stiff= yes", " part "]
    lines += [
        "  new modal    = a beam  ",
        "   refmod",
        f" mass = {given.mass:.17E}".replace("E", "D"),
        f" nelastq =  {n}",
    ]
    lines += [" ielastq (   1)  = Eigen Mode    4 :     6733.131 Hz", "   end refmod", "   frame  "]
    for frame in body.frames:
        lines += [f"  new node   =        {frame.name}", "   rframe      = body ref"]
        lines += sid_section("origin", frame.pose[:3, 3:4], frame.shapes.T[:, :, None])
        bent = None if frame.shortening is None else np.moveaxis(frame.shortening, 2, 0)
        lines += sid_section("phi", frame.shapes.T, bent) + sid_section("psi", frame.slopes.T)
        lines += [*sid_section("AP", np.eye(3), structure=UNIT), "  end node   "]
    lines.append("   end frame")
    crossed = -given.shape_crosses
    bends = None
    if given.shortening is not None:
        turned = np.swapaxes(given.position_shortening, 2, 3) - given.position_shortening
        crossed = crossed - np.stack([turned[..., 1, 2], turned[..., 2, 0], turned[..., 0, 1]], axis=-1)
        bends = given.shortening
    lines += sid_section("mdCM", given.first[:, None], given.shapes.T[:, :, None])
    J, rates = given.rigid().rotation, given.inertia_rates
    lines += sid_section("J", six(J)[:, None], six(rates)[:, :, None])
    lines += sid_section("Ct", given.shapes, bends) + sid_section("Cr", given.moments, crossed)
    curves = given.inertia_curvatures
    orders = [(0, 0, 1), (1, 1, 1), (2, 2, 1), (0, 1, 2), (1, 2, 2), (0, 2, 2)]
    lines += sid_section("Oe", m1=np.stack([-curves[:, :, a, b] * f / 2 for a, b, f in orders], axis=-1))
    lines += sid_section("ksigma", np.zeros((n, 1)), structure=0)
    for word, A in (("Me", given.modal_mass), ("Ke", body.stiffness), ("De", body.damping)):
        lines += sid_section(word, A, structure=SYMMETRIC)
    return "\n".join([*lines, "  end modal ", " end part   "])


@pytest.mark.parametrize("stiffening", [False, True])
def test_standard_input_data(tmp_path, stiffening):
    body = spatial_beam(stiffening=stiffening)
    text = sid_text(body)
    # tabs, comments, small letters of exponents, sections in another order
    start, stop = text.index("   Me "), text.index("   Ke ")
    swapped = text[:start] + text[stop:].replace("  end modal", text[start:stop] + "  end modal")
    for k, variant in enumerate((text, swapped.replace("\n", " ! a remark\r\n").replace("D+", "d+"))):
        path = tmp_path / f"beam{k}.SID_FEM"
        path.write_text(variant, newline="")
        again = wt.flexible.read_sid(path)
        models = [flexible_model(x) for x in (body, again)]
        q, v = models[0].home.q, np.linspace(-1, 1, models[0].nv)
        for name, inputs in (("mass_matrix", (q,)), ("bias", (q, v)), ("passive_forces", (q, v))):
            one, other = (getattr(wt.reference(m), name)(*inputs) for m in models)
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11, err_msg=f"{name} {k}")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("m0( 1, 1)          = ", "m0( 1, 1)          = NaN ", "line .*is not a number"),
        ("m0( 1, 1)          = ", "m0( 7, 1)          = ", r"section 'origin': m0\(7, 1\) is outside of \(3, 1\)"),
        ("m1( 2, 1, 1)", "m1( 2, 1, 5)", r"is outside of \(3, 3, 1\) \(row, mode, column"),
        ("end phi", "end psi", "'end psi' stands in section 'phi', begun in line"),
        ("  end modal ", "", "'end part' stands in section 'modal'"),
        ("   Ke ", "   Kx ", "'end Ke' stands in section 'Kx'"),
        (" nelastq", " nelast", "section 'refmod' has no 'nelastq'"),
        ("mass = ", "mass = about ", "section 'refmod': mass is 'about"),
        ("   ksigma  ", "   ksigma  \n m0( 1, 1) = 2.0D0", "initial stresses"),
        ("   Ct  ", "   Ct  \n m2( 1, 1, 1, 1) = 2.0D0", "terms of second order"),
    ],
)
def test_faults_of_standard_input_data_are_named(tmp_path, old, new, message):
    text = sid_text(spatial_beam())
    assert old in text
    (tmp_path / "bad.SID_FEM").write_text(text.replace(old, new, 1))
    with pytest.raises(FileError, match=message):
        wt.flexible.read_sid(tmp_path / "bad.SID_FEM")


def test_other_files_are_no_standard_input_data(tmp_path):
    (tmp_path / "other.SID_FEM").write_text("<xml/>")
    with pytest.raises(FileError, match="no section 'modal'"):
        wt.flexible.read_sid(tmp_path / "other.SID_FEM")
    text = sid_text(spatial_beam())
    start, stop = text.index("   Ke "), text.index("   De ")
    (tmp_path / "less.SID_FEM").write_text(text[:start] + text[stop:])
    with pytest.raises(FileError, match="section 'modal' has no section 'Ke', only refmod, frame, mdCM"):
        wt.flexible.read_sid(tmp_path / "less.SID_FEM")


@pytest.mark.slow
def test_finite_elements_stiffen_like_the_analytic_beam():
    """Shortening of a frame of one beam, and of an angle of two, whose far leg is carried along by the near one."""
    options = {"length": 1.0, "bending_stiffness": (3.0, 2.0), "mass_per_length": 0.5}
    section = wt.flexible.Section(0.5, 4e4, (3.0, 2.0), 1.0, 1e-4)
    nodal = wt.flexible.frame_of_beams([[0, 0, 0], [1, 0, 0]], [(0, 1, section)], elements=12)
    found = wt.flexible.craig_bampton(nodal, {"root": 0, "tip": 1}, root="root", modes=0, stiffening=True)
    bends = found.frame("tip").shortening
    # the shortening of the straight modes, in the basis that the reduction found
    exact = wt.flexible.beam(**options, modes={"y": 8, "z": 8}, ends="clamped-interface", stiffening=True)
    tip = exact.frame("tip")
    for load in ([0, 1.0, 0], [0, 0.3, 0.7]):
        eta, other = (np.linalg.solve(b.stiffness, b.frame("tip").shapes @ load) for b in (found, exact))
        np.testing.assert_allclose(found.frame("tip").shapes.T @ eta, tip.shapes.T @ other, rtol=1e-6, atol=1e-9)
        want = np.einsum("ija,i,j->a", tip.shortening, other, other)
        np.testing.assert_allclose(np.einsum("ija,i,j->a", bends, eta, eta), want, rtol=2e-3, atol=1e-9)
        pairs = zip(*[(b.integrals.shortening, b.integrals.position_shortening) for b in (found, exact)])
        for one, two in pairs:
            one = np.einsum("ij...,i,j->...", one, eta, eta)
            two = np.einsum("ij...,i,j->...", two, other, other)
            np.testing.assert_allclose(one, two, rtol=1e-2, atol=1e-2 * np.abs(two).max())
    angle = wt.flexible.frame_of_beams(
        [[0, 0, 0], [1, 0, 0], [1, 0, 1]], [(0, 1, section), (1, 2, section)], elements=8
    )
    carried = wt.flexible.craig_bampton(angle, {"root": 0, "end": 2}, root="root", modes=0, stiffening=True).frame(
        "end"
    )
    assert (np.einsum("iia->ia", carried.shortening)[:, [0, 2]] <= 1e-9).all()  # either leg only ever shortens


def test_a_turning_frame_of_beams_stiffens():
    """The rotating cantilever of the reference problems, W = 4, by finite elements: 5.58500142088."""
    section = wt.flexible.Section(1.0, 1e6, (1.0, 1.0), 1.0, 1e-6)
    nodal = wt.flexible.frame_of_beams([[0, 0, 0], [1, 0, 0]], [(0, 1, section)], elements=16)
    body = wt.flexible.craig_bampton(nodal, {"hub": 0, "tip": 1}, root="hub", modes=6, stiffening=True)
    model = (
        wt.Builder("rotor", (0, 0, 0)).flexible_body("blade", body).joint("hub", "revolute", "world", "blade").build()
    )
    ref, q, v = wt.reference(model), model.home.q, np.zeros(model.nv)
    v[0] = 4.0
    K = np.array(
        [(ref.bias(q + 1e-30j * e, v) - ref.passive_forces(q + 1e-30j * e, 0 * v)).imag for e in np.eye(model.nv)]
    )
    K, M = K.T[1:, 1:] / 1e-30, ref.mass_matrix(q)[1:, 1:]
    found = np.sqrt(np.sort(np.linalg.eigvals(np.linalg.solve(M, K)).real))
    assert np.abs(found / 5.58500142088 - 1).min() < 1e-3
    with pytest.raises(ModelError, match="do not say how bending shortens the body"):
        wt.flexible.craig_bampton(replace(nodal, struts=()), {"hub": 0}, root="hub", stiffening=True)


# --- bad input --------------------------------------------------------------------------------------------------------


UNIT_BEAM = {"length": 1.0, "bending_stiffness": 3.0, "mass_per_length": 0.2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"modes": -1}, "beam: -1 modes along 'y', expected a whole number"),
        ({"modes": {"z": 2.5}}, "beam: 2.5 modes along 'z'"),
        ({"damping_ratio": -0.1}, "damping_ratio is -0.1, expected a number from 0 on"),
        ({"damping_ratio": np.nan}, "damping_ratio is nan"),
        ({"rotary_inertia": (1e-3, -1e-3)}, r"rotary_inertia\[1\] is -0.001"),
        ({"length": "1"}, "length is '1', expected a positive number"),
        ({"shapes": {"y": [lambda x: x / 0.0 * 0.0]}}, "shape 1 along 'y' is nan at x = 0.00"),
    ],
)
def test_numbers_of_a_beam_that_make_no_sense(options, message):
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=message):
        wt.flexible.beam(**(UNIT_BEAM | options))


def test_numbers_of_a_lumped_chain_that_make_no_sense():
    for options, message in (
        ({"links": 2.5}, "links is 2.5"),
        ({"bending_stiffness": np.nan}, "bending_stiffness is nan"),
    ):
        with pytest.raises(wt.WhippletreeError, match=message):
            wt.flexible.lumped_chain(wt.Builder("x"), "rod", "world", **(UNIT_BEAM | options))


def test_moments_of_mass_that_no_body_has(tmp_path):
    """A planar file: mass off the origin, and no moment of inertia but about z."""
    text = sid_text(spatial_beam())
    start = text.index("   J    ")
    lines = text[start : text.index("   end J", start)].splitlines()
    planar = [line for line in lines if not ("m0( 1" in line or "m0( 2" in line)]
    (tmp_path / "planar.SID_FEM").write_text(text.replace("\n".join(lines), "\n".join(planar)))
    with pytest.raises(FileError, match="about its centre of mass the undeformed body has the moment of inertia -"):
        wt.flexible.read_sid(tmp_path / "planar.SID_FEM")


POINTS = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0], [0, 0, 1]])
SHAPES = np.zeros((1, 5, 3))
SHAPES[0, :, 1] = [0, 0.3, 1, 0, 0]


def from_modes(**changes):
    given = {"points": POINTS, "masses": np.ones(5), "shapes": SHAPES / np.sqrt(1.09), "frequencies": [3.0]}
    return wt.flexible.from_modes(**(given | {"frames": {"end": 2}} | changes))


def test_modes_at_points():
    body = from_modes()
    assert abs(body.frequencies[0] - 3) < 1e-12
    model = wt.Builder("cloud").flexible_body("c", body).joint("j", "free", "world", "c").build()
    assert model.nv == 7


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shapes": SHAPES}, r"not mass-normalised: Σ m φᵀφ of modes 1 and 1 is 1\.09, expected 1"),
        ({"frames": {"end": 5}}, r"frame 'end' is at point 5, which is not there: points have the numbers 0 … 4"),
        ({"masses": [1, 1, np.nan, 1, 1]}, "masses holds a number that is not finite"),
        ({"masses": [1, 1, -1, 1, 1]}, r"masses\[2\] is negative"),
        ({"points": POINTS[:3]}, r"points has shape \(3, 3\), expected \(5, 3\)"),
        ({"frequencies": None}, "give either frequencies"),
    ],
)
def test_bad_modes_at_points(changes, message):
    with pytest.raises(ModelError, match=message):
        from_modes(**changes)


def test_rigid_modes_and_singular_stiffness_are_refused_by_name():
    builder = wt.Builder("bad")
    rigid = np.zeros((1, 5, 3))
    rigid[0, :, 1] = 1 / np.sqrt(5)
    builder.flexible_body("a", from_modes(shapes=rigid)).joint("j", "free", "world", "a")
    with pytest.raises(ModelError, match="flexible body 'a': its modes contain a motion of the whole body"):
        builder.build()
    loose = wt.Builder("bad").flexible_body("b", from_modes(frequencies=[0.0])).joint("j", "free", "world", "b")
    with pytest.raises(ModelError, match="flexible body 'b': its stiffness is singular or negative"):
        loose.build()
    twice = from_modes(shapes=np.concatenate([SHAPES, SHAPES]) / np.sqrt(1.09), frequencies=None, stiffness=np.eye(2))
    with pytest.raises(ModelError, match="some modes are one motion"):
        wt.Builder("bad").flexible_body("c", twice).joint("j", "free", "world", "c").build()


def test_what_hangs_on_a_flexible_body():
    body = from_modes()
    builder = wt.Builder("bad").flexible_body("c", body).joint("j", "free", "world", "c").body("d", 1.0)
    builder.joint("k", "revolute", "c/modes", "d")
    with pytest.raises(ModelError, match=r"holds on to 'c/modes', which bends .* name one of its frames \('c/end'\)"):
        builder.build()
    hung = wt.Builder("bad").flexible_body("c", body).joint("j", "revolute", "world", "c/end")
    with pytest.raises(ModelError, match="flexible body 'c' hangs on nothing but its frame 'c/end'"):
        hung.build()
    with pytest.raises(ModelError, match="unknown kind 'modal'"):
        wt.Builder("bad").body("b", 1.0).joint("j", "modal", "world", "b").build()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ends": "clamped"}, "two of clamped, pinned, sliding, free"),
        ({"length": -1.0}, "length is -1.0, expected a positive number"),
        ({"bending_stiffness": np.nan}, "bending_stiffness is nan"),
        ({"frames": {"far": 2.0}}, "frames off the beam"),
        ({"modes": {"x": 1}}, "axial_stiffness is None"),
    ],
)
def test_bad_beams(changes, message):
    with pytest.raises(wt.WhippletreeError, match=message):
        wt.flexible.beam(**(UNIFORM | changes))


def test_bad_reductions():
    nodal = wt.flexible.frame_of_beams([[0, 0, 0], [L, 0, 0]], [(0, 1, SECTION)], elements=2)
    with pytest.raises(ModelError, match="frame 'tip' is at 99, which is no node of the body"):
        wt.flexible.craig_bampton(nodal, {"root": 0, "tip": 99}, root="root")
    with pytest.raises(ModelError, match="the root 'base' is not one of the frames"):
        wt.flexible.craig_bampton(nodal, {"root": 0}, root="base")
    loose = wt.flexible.frame_of_beams(
        [[0, 0, 0], [L, 0, 0], [0, 5, 0], [1, 5, 0]], [(0, 1, SECTION), (2, 3, SECTION)], elements=2
    )
    with pytest.raises(ModelError, match=r"singular|without stiffness"):
        wt.flexible.craig_bampton(loose, {"root": 0, "tip": 1}, root="root")


def test_lumped_chain_converges_to_the_beam():
    errors = []
    exact = wt.flexible.beam(**UNIFORM, modes=1).frequencies[0]
    for links in (8, 16):
        builder = wt.flexible.lumped_chain(wt.Builder("chain", (0, 0, 0)), "rod", "world", **UNIFORM, links=links)
        model = builder.build()
        errors.append(frequencies(model)[0] / (2 * np.pi * exact) - 1)
    assert abs(errors[1]) < 5e-3
    assert 3 < errors[0] / errors[1] < 5
