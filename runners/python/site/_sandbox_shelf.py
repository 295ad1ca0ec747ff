"""Modules that are loaded ahead but look as if they were not, until the program imports them.

The driver loads libraries before it knows the program. A program must not see them: neither in `sys.modules`, nor
as an attribute of a package whose submodule it did not import, nor by what they do when the interpreter ends.
So they are hidden, together with a record of what loading each of them brought along, and an `import` puts exactly
that in place, in no time.

All imports of modules that are not in `sys.modules` come through `_find_and_load` of the import system, which is
where the shelf sits, first to record and then to serve. Nothing may be imported here that a plain run has not loaded.

A run process shares its memory with the driver until it writes to it, and even reading an object writes to it. So
while a program runs, nothing here goes through everything there is, only through what the program imports.

Several threads may import at once: one of them shows a module and all that comes with it while the others wait, and
what is no longer hidden is in `sys.modules`. The import system has a lock for each module, and a thread that holds one
may wait for the lock here. So nothing is looked for or loaded while that is held, except in a kernel before its first
cell.
"""

import _frozen_importlib as _bootstrap
import _thread
import atexit
import builtins
import os
import sys

from _sandbox_start import as_part_of_importlib

ESSENTIAL = {"__main__", "builtins", "sys"}


class Shelf:
    def __init__(self, shown):
        self._shown = frozenset(shown)
        self._modules = {}  # name -> module
        self._order = {}  # name -> its place in the order of loading
        self._hidden = set()  # names of those that the program has not imported
        self._unbound = set()  # names of submodules that were taken out of their package
        self._sizes = {}  # name -> its namespace, and how many names were in it before the program
        self._plans = {}  # name -> what importing it brings along, for those that were asked for
        self._needs = {}  # name -> names that were imported while it was loaded
        self._when_shown = {}  # name -> function to call when the program imports it
        self._exit_calls = []  # (name of the module that was being loaded, function, args, kwargs)
        self._fork_hooks = []  # (name of the module that was being loaded, kwargs)
        self._loading = []  # names of the modules that are being loaded, innermost last
        self._known = set()  # names whose place is recorded
        self._path = None
        self._kept = []
        self._showing = _thread.RLock()
        self.before_each = _nothing  # called before a module is loaded
        self._find_and_load = _bootstrap._find_and_load
        self._import = builtins.__import__
        self._register = atexit.register
        self._register_at_fork = os.register_at_fork

    def record(self):
        """From now on, record which module imports what."""
        self._known.update(sys.modules)
        _bootstrap._find_and_load = self._load_and_record
        builtins.__import__ = self._import_and_record
        atexit.register = self._register_later
        os.register_at_fork = self._register_at_fork_later

    def fill(self, name, warm_up=None):
        """Load a module; what `warm_up` then makes it load counts as loaded with it."""
        self._plans[name] = None
        self._loading.append(name)
        module = self._import(name, fromlist=["__name__"])
        if warm_up is not None:
            warm_up(module)
        self._loading.pop()

    def when_shown(self, name, function):
        """Have `function` called when a module is shown to the program."""
        self._when_shown[name] = function

    def close(self):
        """Hide what was loaded since, and serve it from here."""
        builtins.__import__ = self._import
        atexit.register = self._register
        os.register_at_fork = self._register_at_fork
        self._register_at_fork(after_in_child=self._showing._at_fork_reinit)
        self._path = list(sys.path)
        self._modules = {name: module for name, module in sys.modules.items() if name not in self._shown}
        self._order = {name: place for place, name in enumerate(self._modules)}
        packages = {name.rpartition(".")[0] for name in self._modules}
        closures = {package: self._closure(package) for package in packages}
        for name in self._modules:
            self._unbind(name, closures)
        for name in self._modules:
            del sys.modules[name]
        self._hidden.update(self._modules)
        self._plans = {name: self._plan(name) for name in self._plans}
        known = {name: vars(module) for name, module in (sys.modules | self._modules).items()}
        self._sizes = {
            name: (namespace, len(namespace)) for name, namespace in known.items() if name not in ESSENTIAL | {"site"}
        }  # site is still being loaded
        _bootstrap._find_and_load = as_part_of_importlib(self._find_or_load())

    def hide_for_good(self):
        """Leave only the program's own modules in sight, and keep what hangs on the others."""
        self._kept.append(sys.path_importer_cache)
        for name in list(sys.modules):
            if (name in self._modules or name in self._shown) and name not in ESSENTIAL:
                self._kept.append(sys.modules.pop(name))

    def drop_additions(self):
        """Drop what the program has added to modules, and return whether it has. By then, no built-in function has
        its name."""
        dropped = False
        for name in self._sizes.keys() - self._hidden:
            namespace, size = self._sizes[name]
            if namespace.__len__() == size:
                continue
            for added in [*namespace][size:]:
                if self._modules.get(f"{name}.{added}") is None:  # else it is a part that was shown
                    namespace.pop(added, None)
                    dropped = True
        events = self._modules.get("asyncio.events")
        if events and events._event_loop_policy:
            dropped = True
            events._event_loop_policy = None  # and with it the loop, and what its tasks hold
        return dropped

    def _load_and_record(self, name, import_):
        self.before_each()
        self._note(name)
        self._note_strays()
        self._known.add(name)
        self._loading.append(name)
        try:
            return self._find_and_load(name, import_)
        finally:
            self._note_strays()
            self._loading.pop()

    def _import_and_record(self, name, globals=None, locals=None, fromlist=(), level=0):
        module = self._import(name, globals, locals, fromlist, level)
        if level:
            name = _bootstrap._resolve_name(name, _bootstrap._calc___package__(globals), level)
        self._note(name)
        for attribute in fromlist or ():
            self._note(f"{name}.{attribute}")
        return module

    def _note(self, name):
        if self._loading:
            self._needs.setdefault(self._loading[-1], set()).add(name)

    def _note_strays(self):
        """Record the modules that the one being loaded has put into `sys.modules` by hand."""
        if len(self._known) != len(sys.modules):
            for name in sys.modules.keys() - self._known:
                self._note(name)
            self._known = set(sys.modules)

    def _register_later(self, function, /, *args, **kwargs):
        # Modules that took `register` out of atexit keep this function.
        if atexit.register is not self._register and self._loading:
            self._exit_calls.append((self._loading[-1], function, args, kwargs))
            return function
        return self._register(function, *args, **kwargs)

    def _register_at_fork_later(self, **hooks):
        if self._loading:
            self._fork_hooks.append((self._loading[-1], hooks))
        else:
            self._register_at_fork(**hooks)

    def _find_or_load(self):
        hidden, load, showing = self._hidden, self._find_and_load, self._showing

        def _find_and_load(name, import_):
            if name in hidden and self._is_meant(name):
                with showing:
                    if name in hidden:  # else another thread was quicker
                        self._show(name)
                        return sys.modules[name]
            return load(name, import_)

        return _find_and_load

    def _is_meant(self, name):
        """Whether an import would still find this module, in case the program has changed where to look."""
        if sys.path == self._path or "." in name:
            return True
        spec = _bootstrap._find_spec(name, None)
        return spec is not None and spec.origin == self._modules[name].__spec__.origin

    def _closure(self, name):
        """The names of everything that importing a module brings along."""
        closure = {name} & self._modules.keys()
        waiting = list(closure)
        while waiting:
            name = waiting.pop()
            new = {name.rpartition(".")[0], *self._needs.get(name, ())}
            new = (new & self._modules.keys()) - closure
            closure |= new
            waiting.extend(new)
        return closure

    def _unbind(self, name, closures):
        """Take a submodule out of its package, unless the package itself imports it and may rely on it."""
        package, _, child = name.rpartition(".")
        attributes = self._namespace(package)
        if attributes.get(child) is self._modules[name] and name not in closures[package]:
            del attributes[child]
            self._unbound.add(name)

    def _plan(self, name):
        """What importing a module brings along, in the order of loading."""
        return sorted(self._closure(name), key=self._order.get)

    def _show(self, name):
        names = [name for name in self._plans.get(name) or self._plan(name) if name in self._hidden]
        shown = set(names)
        for name, function, args, kwargs in self._exit_calls:
            if name in shown:
                self._register(function, *args, **kwargs)
        for name, hooks in self._fork_hooks:
            if name in shown:
                self._register_at_fork(**hooks)
                _run_late(hooks.get("after_in_child", _nothing))  # there was a fork since it was loaded
        for name in names:
            if name in self._unbound:
                package, _, child = name.rpartition(".")
                self._namespace(package)[child] = self._modules[name]
        sys.modules.update({name: self._modules[name] for name in names})  # at once, for threads that do not wait
        self._hidden.difference_update(names)
        for name, function in self._when_shown.items():
            if name in shown:
                function()

    def _namespace(self, name):
        module = self._modules.get(name) or sys.modules.get(name)
        return vars(module) if module else {}


def _nothing():
    pass


def _run_late(hook):
    """Run it. asyncio's gives back what only the main thread can have taken, and fails in any other."""
    try:
        hook()
    except ValueError:
        pass
