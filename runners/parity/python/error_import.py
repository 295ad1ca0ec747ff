# A module that does not exist.
import no_such_module_anywhere
