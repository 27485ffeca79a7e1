"""A design sweep without compiling again.

How heavy may the coupler of a pump linkage be, and where should its mass sit, so that the motor's peak torque is least?
What to learn: ``wt.compile(model, parameters=[…])`` leaves numbers of the model open, as inputs that broadcast like all
others: 40 × 40 designs × 120 crank angles are one call. And the motor's torque is a constraint force: prescribe the
crank's angle, and the row's force is what the motor has to give.
"""

import time

import numpy as np
from picture import save, subplots

import whippletree as wt

turning = 6.0  # rad/s
linkage = wt.mechanisms.four_bar(lengths=(2.0, 0.7, 1.9, 1.5), masses=(1.0, 1.0, 1.0), angle=0.0)
builder = wt.Builder.from_model(linkage) if hasattr(wt.Builder, "from_model") else None
