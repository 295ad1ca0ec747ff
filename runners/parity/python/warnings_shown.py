# Warnings, their text and their once-only rule.
import warnings


def old():
    warnings.warn("use new()", DeprecationWarning, stacklevel=2)


for _ in range(2):
    old()
warnings.warn("plain")
warnings.warn("plain")
