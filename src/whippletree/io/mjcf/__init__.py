"""MJCF, through MuJoCo's own parser (extra ``mjcf``).

included_files  every file that a model names, checked before MuJoCo reads any
spec            MuJoCo's specification read as data
bodies          bodies, joints and shapes
collisions      which geoms may touch, and how
actuators       actuators and key frames
elements        tendons, fluids and gravity compensation
equalities      equality constraints and tendons
mjcf_sensors    sensors
height_fields   height fields
mjcf_reader     file to model
"""
