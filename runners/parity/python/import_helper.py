# Uploaded modules and packages.
import helper
from package import answer
from package.inner import deep

print(helper.double(21), answer, deep(), helper.__file__, helper.__name__)
