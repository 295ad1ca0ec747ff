# The locale.
import locale
import sys

print(locale.getlocale(), locale.getpreferredencoding(), sys.getfilesystemencoding(), sys.flags.utf8_mode)
