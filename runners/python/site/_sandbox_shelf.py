"""Modules that are loaded ahead but look as if they were not, until the program imports them.

The driver loads libraries before it knows the program. A program must not see them, neither in `sys.modules` nor as an
attribute of a package whose submodule it did not import. So they are hidden, and our finder in `sys.meta_path` has them
when an `import` asks for them: what is found is the module that is there already, and executing it puts in place what
importing it brings along. A package that works differently with another one beside it can look in `sys.modules`.

What a module brings along is what the `import` statements in it name, which `builtins.__import__` sees while the driver
loads it. A program finds the original function there.
"""

import builtins
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import PathFinder


class Shelf:
    def __init__(self, shown):
        self._shown = frozenset(shown)  # what a plain run has loaded
        self._needs = {}  # name -> names that were imported while it was loaded
        self._modules = {}  # name -> module
        self._order = {}  # name -> its place in the order of loading
        self._hidden = set()  # names of those that the program has not imported
        self._unbound = set()  # names of submodules that were taken out of their package
        self._plans = {}  # name -> names of what importing it brings along, for those that were asked for
        self._path = None
        self.loaded = frozenset()  # names of all there is, shown or not
        self.when_shown = {}  # name -> function to call when the program imports it

    def fill(self, names, warm_up=None):
        """Load modules; what `warm_up` then makes the last one load counts as loaded with it."""
        plain = builtins.__import__

        def record(name, globals=None, locals=None, fromlist=(), level=0):
            module = plain(name, globals, locals, fromlist, level)
            if level:
                package = globals["__package__"].rsplit(".", level - 1)[0]
                name = f"{package}.{name}" if name else package
            needs = self._needs.setdefault(_being_loaded(), set())
            needs.update([name], [f"{name}.{attribute}" for attribute in fromlist or ()])
            return module

        builtins.__import__ = record
        try:
            for name in names:
                self._plans[name] = None
                before = set(sys.modules)
                module = plain(name, fromlist=["__name__"])
                if warm_up is not None:
                    warm_up(module)
                self._needs.setdefault(name, set()).update(sys.modules.keys() - before)
        finally:
            builtins.__import__ = plain

    def hide(self):
        """Hide what was loaded."""
        self._path = list(sys.path)
        self.loaded = frozenset(sys.modules)
        self._modules = {name: module for name, module in sys.modules.items() if name not in self._shown}
        self._order = {name: place for place, name in enumerate(self._modules)}
        packages = {name.rpartition(".")[0] for name in self._modules}
        brought_along = {package: self._brought_along(package) for package in packages}
        for name, module in self._modules.items():
            package, _, child = name.rpartition(".")
            attributes = vars(self._modules.get(package) or sys.modules.get(package) or self)
            # A package may rely on what it imports itself.
            if attributes.get(child) is module and name not in brought_along[package]:
                del attributes[child]
                self._unbound.add(name)
        for name in self._modules:
            del sys.modules[name]
        self._plans = {name: self._plan(name) for name in self._plans}
        self._hidden.update(self._modules)

    def reveal(self):
        """Have everything in place again, to load more."""
        sys.modules.update(self._modules)
        for name in self._unbound:
            package, _, child = name.rpartition(".")
            setattr(sys.modules[package], child, sys.modules[name])
        self._hidden.clear()
        self._unbound.clear()

    def find_spec(self, name):
        """What an import finds: the specification that the module has, with a loader that has nothing to load."""
        module = self._modules.get(name)
        # If another thread was quicker, it is shown already.
        if module is None or (name not in self._hidden and sys.modules.get(name) is not module):
            return None
        spec = module.__spec__
        # The program may have changed where to look.
        if sys.path != self._path and "." not in name and spec.has_location:
            found = PathFinder.find_spec(name)
            if found is None or found.origin != spec.origin:
                return found
        if isinstance(spec.loader, type):  # of what is part of the interpreter
            loader = type(spec.loader.__name__, (spec.loader,), {})
            spec = ModuleSpec(name, loader, origin=spec.origin, is_package=hasattr(module, "__path__"))
        self._have_nothing_loaded(spec.loader, module)
        return spec

    def _have_nothing_loaded(self, loader, module):
        own = module.__spec__

        def exec_module(_module):
            module.__spec__ = own
            if own.loader is loader:
                del loader.create_module, loader.exec_module
            self._show(own.name)

        loader.create_module = lambda _spec: module
        loader.exec_module = exec_module

    def _show(self, name):
        shown = [name for name in self._plans.get(name) or self._plan(name) if name in self._hidden]
        for name in shown:
            module = self._modules[name]
            if name in self._unbound:
                package, _, child = name.rpartition(".")
                setattr(self._modules.get(package) or sys.modules[package], child, module)
            sys.modules[name] = module
            self._hidden.discard(name)
        for name in self.when_shown.keys() & shown:
            self.when_shown[name]()

    def _plan(self, name):
        """What importing a module brings along, in the order of loading."""
        return sorted(self._brought_along(name), key=self._order.get)

    def _brought_along(self, name):
        """The names of all that importing a module brings along."""
        found, waiting = set(), [name]
        while waiting:
            name = waiting.pop()
            if name in self._modules and name not in found:
                found.add(name)
                waiting += [name.rpartition(".")[0], *self._needs.get(name, ())]
        return found


def _being_loaded():
    """The name of the module whose loading has led here, in whichever function of another one."""
    frame = sys._getframe(2)
    while frame and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame and frame.f_globals.get("__name__")
