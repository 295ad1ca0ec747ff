# Warnings made errors.
import warnings

warnings.simplefilter("error")
warnings.warn("now an error")
