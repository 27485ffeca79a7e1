"""Steps of the adaptive method: collocation with error control, many steps in one call.

collocation_frame    when a step is kept, shortened or handed back, whatever the size of the state
questions            when a controller in plain Python is asked, and when its tangent stands for it
collocation_rates    the equations of motion at one point: the model's, or others
collocation_kernel   steps of one model, its equations of motion written into them
collocation_newton   its stiff steps: Newton's method, with matrices built and inverted in loops
collocation_calls    steps of any model, which call its compiled functions at all points at once
called_newton        their stiff steps: Newton's method, with J from calls
complex_elimination   complex linear systems of a size that the call decides, several side by side
step_watch           guards that end a call with the step in which one may vanish
step_control         how long the next step is, for numbers and for kernels
"""
