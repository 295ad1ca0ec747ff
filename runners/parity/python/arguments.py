# argv, flags and the like.
import sys

print(sys.argv, sys.orig_argv, sys.flags, sys.executable, sys.prefix, sys.base_prefix)
print(sys.version_info[:2], sys.implementation.name, sys.byteorder, sys.warnoptions, sys._xoptions)
