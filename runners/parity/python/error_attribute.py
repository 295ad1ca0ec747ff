# An attribute that is not there, with a suggestion.
import math

math.sqroot(4)
