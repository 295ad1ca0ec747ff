"""Tells which package a module is from that fails to load, as after a bad build or beside what it does not go with."""

from importlib.metadata import distributions


def blame(error, module, directory):
    """Add a note to the error, unless a part of the module already has one."""
    if any(note.startswith("Installed with") for note in getattr(error, "__notes__", ())):
        return
    owners = {
        f"{one.name} {one.version}"
        for one in distributions(path=[directory])
        if any(file.parts[0].partition(".")[0] == module for file in one.files or ())
    }
    if owners:
        error.add_note(f"Installed with install_packages: {module} is from {', '.join(sorted(owners))}")
