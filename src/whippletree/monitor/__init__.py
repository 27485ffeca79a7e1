"""How much an answer can be trusted: document 004 as a tool, and past it.

    measures     numbers of one matrix: condition number, equilibrated, diagonal ratio, pivot ratios, sensitivity
    report       ``wt.conditioning``: these numbers for a model at states, with names and cures
    wording      the text of a report
    rounding     bounds on the rounding errors of the recursions that form M and c, body by body
    recursion    the same for the articulated recursion
    prediction   how many digits each route to the accelerations keeps, and a bound from the residual
    coordinates  the same mechanism in relative and in absolute joint angles (004 §3)

Two things are never mixed here. κ is the *problem's*: how much errors of forces and parameters are amplified,
whatever the algorithm. The predicted error is the *route's*: what its own rounding does. A chain of 32
rods with light tips has κ = 5·10¹¹ and Cholesky keeps twelve digits of it; with heavy tips κ = 5·10¹⁴, Cholesky keeps
two, and the recursion keeps all sixteen of both.
"""
