"""URDF: trees of links and joints, mimics, shapes."""
