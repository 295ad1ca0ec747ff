# An uploaded module that fails while it is imported.
import failing
