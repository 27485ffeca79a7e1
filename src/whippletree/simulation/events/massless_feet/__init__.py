"""Feet without mass: their motion is decided by the contact, not by inertia.

foot_contact             which massless motions a contact holds
foot_slip                slip of a massless foot under load
"""
