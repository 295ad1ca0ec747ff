// An error in an uploaded module, with its own lines.
import { fail } from "./helper";

fail();
