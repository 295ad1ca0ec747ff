# An uploaded module that is not Python.
import unparsable
