"""Runs at the start of every interpreter of this image, by way of sandbox.pth: keep it small."""

import _frozen_importlib_external as _importing
import os
import stat
import sys

import _sandbox_hooks
import _sandbox_output

PACKAGES = "/data/.packages/python"
REPLACED = "/data/.packages/python/.replaced"
# There if something that is loaded ahead was installed in another version.
ANEW = "/data/.packages/python/.anew"
FONT_LISTS = ("/opt/runner/matplotlib", "/data/.packages/python/.replaced/.fonts")


class _Packages(_importing.FileFinder):
    """Finds what was installed, and has whatever fails to load say which package it is from."""

    def find_spec(self, name, target=None):
        spec = super().find_spec(name, target)
        if spec is not None and spec.loader is not None:
            for step in ("create_module", "exec_module"):
                setattr(spec.loader, step, _blaming(getattr(spec.loader, step), name, self.path))
        return spec


def _blaming(load, name, directory):
    def load_or_blame(about):
        try:
            return load(about)
        except Exception as error:
            from _sandbox_blame import blame

            blame(error, name, directory)
            raise

    return as_part_of_importlib(load_or_blame)


def as_part_of_importlib(function):
    """Tracebacks leave out the frames of the import system, which they know by this file name."""
    return type(function)(
        function.__code__.replace(co_filename="<frozen importlib._bootstrap>"),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


class _Replaced(_Packages):
    """Finds what was installed in place of libraries of the image, which includes nothing of ours."""

    def find_spec(self, name, target=None):
        return None if name.startswith("_sandbox") else super().find_spec(name, target)


def find_packages():
    """Find what was installed for the conversation, even while this interpreter is parked: one that sees no directory
    now would never look again, and neither would a line of sandbox.pth."""
    sys.path.insert(sys.path.index(os.path.dirname(__file__)), REPLACED)
    sys.path.append(PACKAGES)
    loaders = _importing._get_supported_file_loaders()
    sys.path_importer_cache[REPLACED] = _Replaced(REPLACED, *loaders)
    sys.path_importer_cache[PACKAGES] = _Packages(PACKAGES, *loaders)


def lend_font_cache():
    """Give matplotlib the writable cache directory that it insists on, and would otherwise spend seconds filling."""
    try:
        own = os.environ["MPLCONFIGDIR"]
        os.mkdir(own)
        for directory in FONT_LISTS:
            for name in os.listdir(directory):
                os.symlink(f"{directory}/{name}", f"{own}/{name}")
    except (KeyError, OSError):
        pass  # there already, or not ours; or no other version of matplotlib has left a list


def is_driver():
    """Only PID 1 starts a process with a socket as its descriptor 3."""
    try:
        return os.getppid() == 1 and stat.S_ISSOCK(os.fstat(3).st_mode)
    except OSError:
        return False


def park_when_started():
    """Become the driver at the very end of what `site` does, so that as little as possible is left to do for a run."""
    import site

    last_step = site.execsitecustomize

    def last_step_and_park():
        site.execsitecustomize = last_step
        last_step()
        shown = set(sys.modules)
        from _sandbox_driver import serve

        serve(shown)
        lend_font_cache()  # the scrub removed the previous one

    site.execsitecustomize = last_step_and_park


find_packages()
_sandbox_hooks.put_in_place()
_sandbox_output.follow_by_line()
_sandbox_output.keep_in_order()
lend_font_cache()
if is_driver():
    park_when_started()
