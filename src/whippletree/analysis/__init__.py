"""Analysis on the constraint manifold: where a mechanism rests, how it vibrates, how to move a point there.

    balance            what acts on a model and what holds it, with derivatives, for many states at once
    balance_search     Newton's method for configurations in which forces balance, also with contacts and joint limits
                       that carry
    equilibrium        wt.equilibrium: configurations in which all forces balance
    linear             wt.linearize: the linear system about a state, in minimal coordinates
    modes              wt.eigenmodes and wt.frequency_response
    reaching           one step of inverse kinematics, on any scalar
    inverse_kinematics wt.inverse_kinematics: many problems from many starts
    maps               wt.dexterity and wt.workspace: how well a frame moves, and where

Compiled functions of the catalogue evaluate whole batches; NumPy handles only small dense matrices, one per state.

The chapter imports ``simulation``, ``compiler`` and what is below them.
"""
