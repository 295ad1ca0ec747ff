# A name that a library does not have.
from collections import OrderedDictt
