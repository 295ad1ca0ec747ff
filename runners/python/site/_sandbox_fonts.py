"""Has matplotlib draw every text of which the image has the letters, in whichever font a program asks for.

A family that the image lacks is taken for the one that stands for it, and letters that a font lacks come from the next
one that has them.
"""

import functools
import glob
import logging
import os

FONTS = "/usr/share/fonts/truetype"
NAMES = "/opt/common/font-names"


@functools.cache
def fallbacks():
    """Files of the fonts that have what others lack: Chinese, Japanese and Korean, other scripts, symbols."""
    first = [f"{FONTS}/wqy/wqy-microhei.ttc"]
    last = ["dejavu/DejaVuSans.ttf", "ancient-scripts/Symbola_hint.ttf"]
    files = first + sorted(glob.glob(f"{FONTS}/noto/*-Regular.ttf")) + [f"{FONTS}/{file}" for file in last]
    return [file for file in files if os.path.exists(file)]


@functools.cache
def stand_ins():
    """Names of families, in small letters, and the family of the image that stands for each."""
    try:
        with open(NAMES, encoding="utf-8") as file:
            lines = [line.strip().split("|") for line in file if not line.startswith("#")]
    except FileNotFoundError:
        return {}
    return {name.lower(): family for family, *names in lines for name in names}


class Once(logging.Filter):
    """Tells of each missing font once, not with every text that is drawn, and of no weight that a stand-in lacks."""

    def __init__(self):
        super().__init__()
        self._told = set()

    def filter(self, record):
        text = record.getMessage()
        if text in self._told or text.startswith("findfont: Failed to find font weight"):
            return False
        self._told.add(text)
        return True


def fit_matplotlib(font_manager):
    manager = font_manager.FontManager
    find, expand = manager._find_fonts_by_props, manager._expand_aliases

    def known(families):
        names = {font.name.lower() for font in font_manager.fontManager.ttflist}
        return [each if each.lower() in names else stand_ins().get(each.lower(), each) for each in families]

    @functools.wraps(find)
    def _find_fonts_by_props(self, prop, fontext="ttf", *args, **kwargs):
        prop = font_manager.FontProperties._from_any(prop).copy()
        if prop.get_file() is None:
            prop.set_family(known(prop.get_family()))
        found = find(self, prop, fontext, *args, **kwargs)
        return found + [file for file in fallbacks() if file not in found] if fontext == "ttf" else found

    manager._find_fonts_by_props = _find_fonts_by_props
    manager._expand_aliases = staticmethod(lambda family: known(expand(family)))
    logging.getLogger(font_manager.__name__).addFilter(Once())
