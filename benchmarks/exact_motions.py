"""Motions that are known to all digits, beside which integrators are measured: no integrator is its own judge."""

from __future__ import annotations

import mpmath
import numpy as np

import whippletree as wt
from whippletree.arithmetic.arrays import Array

GRAVITY = 9.81

DIGITS = 30
"""With which they are worked out."""


def n_four_bar_state(n: int, t: float) -> Array:
    """(q, v) of ``wt.mechanisms.n_four_bar(n)`` at a time, s.

    All side rods turn by one angle θ, which the couplers undo (IFToMM A02):
    ((n + 1)/3 + n) θ̈ = −((n + 1)/2 + n) g cos θ. From θ = φ − π/2 this is a pendulum, φ̈ = −Ω² sin φ, that starts
    upright with φ̇ = −1 and so turns over: φ = 2 am(K − w t/2), w² = 1 + 4 Ω² its speed at the bottom, k² = 4 Ω²/w².
    """
    with mpmath.workdps(DIGITS):
        Omega2 = mpmath.mpf(GRAVITY) * (mpmath.mpf(n + 1) / 2 + n) / (mpmath.mpf(n + 1) / 3 + n)
        w = mpmath.sqrt(1 + 4 * Omega2)
        m = 4 * Omega2 / w**2
        u = mpmath.ellipk(m) - w * mpmath.mpf(t) / 2
        sn, cn, dn = (mpmath.ellipfun(kind, u, m=m) for kind in ("sn", "cn", "dn"))
        # the first turn: am lies between −π and π
        angle, rate = float(2 * mpmath.atan2(sn, cn) - mpmath.pi / 2), float(-w * dn)
    turns = np.array([1.0 if joint.name.startswith("side") else -1.0 for joint in wt.mechanisms.n_four_bar(n).joints])
    return np.concatenate([angle * turns, rate * turns])


def top_state(t: float, spin: float = 200.0, lean: float = 0.3) -> Array:
    """(quaternion, ω in the top's axes) of a heavy symmetric top on its tip at a time, s: 1 kg, its centre 0.1 m above
    the tip, 0.012 kg m² about the tip and 0.001 kg m² about its axis; released at a lean, rad, with a spin, rad/s.

    With R = R_z(φ) R_x(θ) R_z(ψ), u = cos θ, a = I₃ ω₃/I₁ and β = 2 m g l/I₁, Lagrange's top that starts at rest
    but for its spin has

        u̇² = (u₀ − u) (β (1 − u²) − a² (u₀ − u)),   φ̇ = a (u₀ − u)/(1 − u²),   ψ̇ = ω₃ − φ̇ u

    so u = u₁ + (u₀ − u₁) cd²(κ t), u₁ < u₀ < u₃ the roots, κ² = β (u₃ − u₁)/4; φ and ψ are quadratures.
    """
    with mpmath.workdps(DIGITS):
        I1, I3, mgl = mpmath.mpf("0.012"), mpmath.mpf("0.001"), mpmath.mpf(GRAVITY) * mpmath.mpf("0.1")
        w3, end, u0 = mpmath.mpf(spin), mpmath.mpf(t), mpmath.cos(mpmath.mpf(lean))
        a, beta = I3 * w3 / I1, 2 * mgl / I1
        root = mpmath.sqrt(a**4 + 4 * beta * (beta - a**2 * u0))
        u1, u3 = (a**2 - root) / (2 * beta), (a**2 + root) / (2 * beta)
        kappa, m = mpmath.sqrt(beta * (u3 - u1)) / 2, (u0 - u1) / (u3 - u1)

        def height(s: mpmath.mpf) -> mpmath.mpf:
            return u1 + (u0 - u1) * mpmath.ellipfun("cd", kappa * s, m=m) ** 2

        def precession(u: mpmath.mpf) -> mpmath.mpf:
            return a * (u0 - u) / (1 - u**2)

        pieces = mpmath.linspace(0, end, 9)
        phi = mpmath.quad(lambda s: precession(height(s)), pieces)
        psi = w3 * end - mpmath.quad(lambda s: precession(height(s)) * height(s), pieces)
        u, (sn, cd, dn) = height(end), (mpmath.ellipfun(kind, kappa * end, m=m) for kind in ("sn", "cd", "dn"))
        sine = mpmath.sqrt(1 - u**2)
        nod = 2 * (u0 - u1) * kappa * (1 - m) * cd * sn / dn**2 / sine
        return np.array(
            [float(x) for x in (*_quaternion(mpmath.acos(u), phi, psi), *_turn(precession(u) * sine, nod, psi), w3)]
        )


def _quaternion(theta: mpmath.mpf, phi: mpmath.mpf, psi: mpmath.mpf) -> tuple[mpmath.mpf, ...]:
    """Of R_z(φ) R_x(θ) R_z(ψ)."""
    half, whole, apart = theta / 2, (phi + psi) / 2, (phi - psi) / 2
    return (
        mpmath.cos(half) * mpmath.cos(whole),
        mpmath.sin(half) * mpmath.cos(apart),
        mpmath.sin(half) * mpmath.sin(apart),
        mpmath.cos(half) * mpmath.sin(whole),
    )


def _turn(across: mpmath.mpf, nod: mpmath.mpf, psi: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf]:
    """ω₁ and ω₂ in the top's axes, of φ̇ sin θ and θ̇."""
    s, c = mpmath.sin(psi), mpmath.cos(psi)
    return across * s + nod * c, across * c - nod * s
