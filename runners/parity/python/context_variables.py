# Context variables and decimal contexts are fresh.
import contextvars
import decimal

print(decimal.getcontext(), [variable.name for variable in contextvars.copy_context()])
