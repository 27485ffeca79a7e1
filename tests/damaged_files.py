"""Small model and mesh files with everything that readers know, and seeded damage to them."""

from __future__ import annotations

import random
import re

URDF = b"""<robot name="arm"><material name="red"><color rgba="1 0 0 1"/></material>
<link name="base"><inertial><origin xyz="0 0 1" rpy="0.1 0 0"/><mass value="2"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
<visual name="v"><origin xyz="0 0 0"/><geometry><box size="1 2 3"/></geometry><material name="red"/></visual>
<collision><geometry><mesh filename="package://arm/m.stl" scale="1 1 1"/></geometry></collision></link>
<link name="rod"><inertial><mass value="1"/><inertia ixx="1" iyy="2" izz="2.5" ixy="0" ixz="0.1" iyz="0"/></inertial>
<collision><geometry><cylinder radius="0.1" length="1"/></geometry></collision></link><link name="tip"/>
<joint name="hinge" type="revolute"><parent link="base"/><child link="rod"/><origin xyz="1 0 0" rpy="0 1.57 0"/>
<axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="10" velocity="2"/><dynamics damping="0.1" friction="0.2"/>
</joint><joint name="slide" type="prismatic"><parent link="rod"/><child link="tip"/><limit lower="0" upper="1"/>
<mimic joint="hinge" multiplier="2" offset="0.1"/></joint></robot>"""

SDF = b"""<sdf version="1.7"><model name="arm"><link name="base"><inertial><mass>2</mass>
<inertia><ixx>1</ixx><iyy>1</iyy><izz>1</izz><ixy>0</ixy></inertia><pose>0 0 1 0.1 0 0</pose></inertial>
<collision name="c"><geometry><box><size>1 2 3</size></box></geometry></collision></link>
<link name="rod"><pose relative_to="base">1 0 0 0 0 0.5</pose></link><link name="tip"><pose>2 0 0 0 0 0</pose></link>
<frame name="f" attached_to="rod"><pose relative_to="tip">0 0 0.1 0 0 0</pose></frame>
<joint name="hinge" type="revolute"><parent>base</parent><child>rod</child><axis><xyz expressed_in="f">0 1 0</xyz>
<limit><lower>-1</lower><upper>1</upper></limit><dynamics><damping>0.1</damping></dynamics></axis></joint>
<joint name="cross" type="universal"><pose>0.1 0 0 0 0 0</pose><parent>rod</parent><child>tip</child>
<axis><xyz>1 0 0</xyz></axis><axis2><xyz>0 1 0</xyz></axis2></joint>
<joint name="loop" type="ball"><parent>base</parent><child>tip</child></joint></model></sdf>"""

MJCF = b"""<mujoco model="arm"><compiler angle="radian"/><option gravity="0 0 -9.81"/>
<default><geom density="1000"/></default><asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/>
<hfield name="h" nrow="2" ncol="3" size="1 1 1 1" elevation="0 1 0 1 0 1"/></asset>
<worldbody><geom type="plane" size="1 1 1"/><geom type="hfield" hfield="h"/><body name="base" pos="0 0 1">
<freejoint name="root"/><geom name="g" type="box" size="0.1 0.2 0.3"/><site name="s" pos="0 0 0.1"/>
<body name="rod" euler="0 0.5 0"><joint name="hinge" type="hinge" axis="0 1 0" range="-1 1" damping="0.1"/>
<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/><geom type="mesh" mesh="m"/></body>
<replicate count="2" offset="1 0 0"><body><joint type="slide"/><geom size="0.1"/></body></replicate></body></worldbody>
<equality><connect name="c" body1="rod" anchor="0 0 0"/><joint joint1="hinge" polycoef="0 1 0 0 0"/></equality>
<contact><exclude body1="base" body2="rod"/></contact><keyframe><key name="home" qpos="0 0 1 1 0 0 0 0 0 0"/></keyframe>
<actuator><motor joint="hinge"/></actuator></mujoco>"""

TOML = b"""whippletree = 1
name = "arm"
gravity = [0.0, 0.0, "-981/100"]
[[bodies]]
name = "rod"
mass = 2.0
center = [0.2, 0.0, 0.0]
inertia = [0.01, 0.03, 0.03]
[[joints]]
name = "hinge"
kind = "revolute"
parent = "world"
child = "rod"
axis = [0.0, 0.6, 0.8]
lower = "-inf"
damping = 0.1
[[frames]]
name = "tip"
body = "rod"
position = [1.0, 0.0, 0.0]
rotation = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
[[constraints]]
name = "hold"
kind = "gear"
on = ["hinge"]
parameters = { ratios = [2.0], offset = { fraction = "1/3" } }
[[geometries]]
name = "ball"
body = "rod"
kind = "mesh"
parameters = { file = "m.stl", scale = [1.0, 1.0, 1.0] }
[[geometries]]
name = "floor"
body = "world"
kind = "half_space"
[[contacts]]
name = "touch"
first = "ball"
second = "floor"
friction = 0.5
[start]
q = [0.5]
v = [0.0]
"""

_FACES = ("000 100 010", "000 100 001", "000 010 001", "100 010 001")
_LOOPS = ["".join(f"vertex {' '.join(corner)}\n" for corner in face.split()) for face in _FACES]
STL = ("solid t\n" + "".join(f"facet\nouter loop\n{each}endloop\nendfacet\n" for each in _LOOPS) + "endsolid").encode()
OBJ = b"# t\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1/1/1 2//2 3\nf 1 2 3 4\nf -1 -2 -3\n"
BINARY = b"x" * 80 + (2).to_bytes(4, "little") + bytes(range(100))
COLLADA = b"""<?xml version="1.0"?><COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><unit meter="0.01"/></asset><library_effects><effect id="e"><diffuse><color>1 0.5 0 1</color></diffuse></effect>
</library_effects><library_materials><material id="mat"><instance_effect url="#e"/></material></library_materials>
<library_geometries><geometry id="g"><mesh><source id="p"><float_array count="12">0 0 0 1 0 0 0 2 0 0 0 3</float_array>
</source><vertices id="v"><input semantic="POSITION" source="#p"/></vertices><polylist material="m" count="2">
<input semantic="VERTEX" source="#v" offset="0"/><input semantic="NORMAL" source="#n" offset="1"/><vcount>3 4</vcount>
<p>0 0 1 0 2 0 0 0 1 0 2 0 3 0</p></polylist></mesh></geometry></library_geometries>
<library_nodes><node id="k"><instance_geometry url="#g"/></node></library_nodes><library_visual_scenes><visual_scene>
<node><translate>1 0 0</translate><rotate>0 0 1 90</rotate><scale>1 1 1</scale><instance_node url="#k"/>
<node><instance_geometry url="#g"><instance_material symbol="m" target="#mat"/></instance_geometry></node></node>
</visual_scene></library_visual_scenes></COLLADA>"""

MODELS = {"arm.urdf": URDF, "arm.sdf": SDF, "arm.xml": MJCF, "arm.toml": TOML}
MESHES = {"m.stl": STL, "b.stl": BINARY, "m.obj": OBJ, "m.dae": COLLADA}

_VALUES = [
    *(b"", b"0", b"-1", b"nan", b"inf", b"-inf", b"1e308", b"-1e308", b"1e-320", b"1e400", b"9" * 400, b"1e30"),
    *(b"1000000000", b"-2147483649", b"18446744073709551616", b"0x10", b"1/3", b"1/0", b"a", b"world", b"\xff", b"\0"),
    *(b"<", b">", b"&", b"&amp;", b"#", b"#k", b"#g", b"/", b"../../x", b"/dev/zero", b"0 0 0", b"1 2", b"[]", b"{}"),
    *(b'"x"', b"''", b"true", b"[1, [2, [3]]]", b"{ kind = 1, name = 2 }", "\N{DOUBLE-STRUCK CAPITAL R}".encode()),
]
_TOKENS = re.compile(rb"[\w.#/+-]+")
_ENTRIES = re.compile(rb"""(?<==")[^"]*|(?<=>)[^<>]+(?=</)|(?<== )[^\n]+""")
"""Values of attributes, texts of elements, and what stands behind an equals sign in TOML."""


def damage(data: bytes, dice: random.Random) -> bytes:
    """The data with one to four changes: words replaced, exchanged or doubled, pieces cut, repeated or moved."""
    for _ in range(dice.choice((1, 1, 1, 1, 2, 4))):
        tokens = list((_TOKENS if dice.random() < 0.3 else _ENTRIES).finditer(data)) or list(_TOKENS.finditer(data))
        if not tokens:
            break
        one, other = (dice.choice(tokens).span() for _ in range(2))
        a, b = sorted(dice.sample(range(len(data) + 1), 2))
        b = min(b, a + dice.choice((1, 10, 200)))
        change = dice.randrange(10)
        if change in (0, 1, 2, 8, 9):
            data = data[: one[0]] + dice.choice(_VALUES) + data[one[1] :]
        elif change == 3:
            data = data[: one[0]] + data[slice(*other)] + data[one[1] :]
        elif change == 4:
            data = data[:a] + data[b:]
        elif change == 5:
            data = data[:b] + data[a:b] * dice.choice((1, 2, 20)) + data[b:]
        elif change == 6:
            data = data[:a] + bytes([dice.randrange(256)]) + data[a + 1 :]
        else:
            data = data[: one[1]] + b" " + dice.choice(_VALUES) + data[one[1] :]
    return data
