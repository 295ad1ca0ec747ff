# Annotations of the program.
import typing

count: int = 3
name: "str"
print(__annotations__, typing.get_type_hints(__import__("__main__")))
