# A relative import in the program itself is an error.
from . import helper
