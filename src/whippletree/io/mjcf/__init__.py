"""MJCF, through MuJoCo's own parser (extra ``mjcf``).

included_files  every file that a model names, checked before MuJoCo reads any
spec            MuJoCo's specification read as data, height fields too
collisions      which geoms may touch, and how
mjcf_elements   actuators, key frames, sensors, tendons, fluids and gravity compensation
mjcf_reader     file to model: bodies, joints, shapes, equality constraints
"""
