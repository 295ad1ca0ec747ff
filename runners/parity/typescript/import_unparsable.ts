// An uploaded module that is not TypeScript.
import "./unparsable";
