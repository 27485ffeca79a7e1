"""Long mechanisms: systems as sparse as their graph, eliminated in an order that keeps them so.

node_rows             rows of closures on the motions of nodes
recursive_dynamics    long trees with a few closures, by articulated recursion
following_bodies      which bodies leave that system by their joints
hub_copies            bodies that many loops share, as rows of copies
row_weights           which of its rows need a weight
body_elements         contribution of one joint with its body, or of one constraint, to the body-level system
body_system           the unknowns of that system, accelerations of bodies and forces of joints and closures, and the
                      order in which they are eliminated
long_or_wide          which mechanisms are eliminated body by body
front_elimination     that system factored front by front: ladders, trusses, grids
long_structure        loops closed and redundant rows found by it
"""
