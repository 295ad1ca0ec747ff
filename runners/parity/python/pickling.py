# Objects of the program survive pickling.
import dataclasses
import pickle


@dataclasses.dataclass
class Point:
    x: int
    y: int = 2


print(pickle.loads(pickle.dumps(Point(1))), Point.__module__)
