from .inner import deep

answer = deep()
