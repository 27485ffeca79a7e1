"""Constraint embedding: the bodies of a loop become one node of a tree, on which the recursions run unchanged.

Documents 002 (aggregation) and 000 (dagger terms) meet here; docs/theory/clusters.md derives it. In reading order:

    loop_clusters            loops as nodes of a tree of clusters
    separate_mechanisms      mechanisms of a scene that nothing ties together
    cluster_structure        redundancy found cluster by cluster, equal clusters once
    clustered_mechanism      a mechanism as a tree of clusters: their links and rows
    cluster_members          recursions over the members of one cluster
    embedding                the articulated recursion over clusters, with dagger terms in place of D⁻¹
    cluster_routes           the route that each kind of cluster takes
    few_motions              clusters whose rows leave few motions, or none
    singular_clusters        the rank-revealing route for single clusters, where their rows depend on each other
    prescribed_clusters      hybrid dynamics over a tree of clusters
    cluster_operators        the spatial operators of a tree of clusters (``wt.spatial_operators``)
    minimal_coordinates      ``wt.embed``
"""
