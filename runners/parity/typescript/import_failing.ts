// An uploaded module that fails while it is loaded.
import "./failing";
