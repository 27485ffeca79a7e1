"""stub"""
def angle_of_point(w, y, x):
    raise NotImplementedError
