# A library can be forgotten and imported again.
import sys

import json

first = json
del sys.modules["json"]
import json

print(first is json, json.dumps({"a": [1, 2]}))
