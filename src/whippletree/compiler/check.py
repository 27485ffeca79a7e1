def check(program): pass
