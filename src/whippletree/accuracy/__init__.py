"""How much an answer can be trusted: document 004 as a tool, and past it.

    measures          numbers of one matrix: condition number, equilibrated, diagonal ratio, pivot ratios, sensitivity
    predicted_error   how many digits each route to the accelerations keeps, and a bound from the residual
    coordinates       one mechanism in relative and in absolute joint angles (004 §3)
    report            ``wt.conditioning``: these numbers for a model at states, with names and cures, and its text

Two things are never mixed here. κ is the *problem's*: how much errors of forces and parameters are amplified,
whatever the algorithm. The predicted error is the *route's*: what its own rounding does. A chain of 32
rods with light tips has κ = 5·10¹¹ and Cholesky keeps twelve digits of it; with heavy tips κ = 5·10¹⁴, Cholesky keeps
two, and the recursion keeps all sixteen of both.

The chapter imports ``constraints``, ``tree`` and what is below them. (It is not called ``conditioning``: that is a
public function, and Python would overwrite one with the other.)
"""
