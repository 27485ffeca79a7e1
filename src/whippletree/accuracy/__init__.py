"""How much an answer can be trusted: document 004 as a tool, and beyond it.

    measures          numbers of one matrix: condition number, equilibrated, diagonal ratio, pivot ratios, sensitivity
    predicted_error   how many digits each route to the accelerations keeps, and a bound from the residual
    coordinates       one mechanism in relative and in absolute joint angles (004 §3)
    report            ``wt.conditioning``: these numbers for a model at states, with names and cures, and its text

Two numbers are kept apart. κ belongs to the *problem*: how much errors of forces and parameters are amplified, whatever
the algorithm. The predicted error belongs to the *route*: what its own rounding does. On a chain of 32 rods with light
tips κ = 5·10¹¹, and Cholesky keeps twelve digits; with heavy tips κ = 5·10¹⁴, and Cholesky keeps two. The recursion
keeps all sixteen in both.

The chapter imports ``constraints``, ``tree`` and what is below them. (It is not called ``conditioning``: that is a
public function, and Python would overwrite one with the other.)
"""
