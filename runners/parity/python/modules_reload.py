# importlib.reload of a library and of an uploaded module.
import importlib

import helper
import json

print(importlib.reload(json) is json, importlib.reload(helper) is helper)
