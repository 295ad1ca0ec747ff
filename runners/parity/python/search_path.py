# Uploaded modules come last.
import sys

print(sys.path)
print([type(finder) if isinstance(finder, object) else finder for finder in sys.path_hooks][:1] != [])
print([getattr(finder, "__name__", finder) for finder in sys.meta_path])
