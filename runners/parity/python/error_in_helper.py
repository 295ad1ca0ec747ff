# An error in an uploaded module: the traceback shows its lines and none of the import system.
import helper

helper.fail()
