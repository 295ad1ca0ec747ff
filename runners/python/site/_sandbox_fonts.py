"""Has matplotlib draw every text of which the image has the letters, in whichever font a program asks for.

A family that the image lacks is taken for the one that stands for it, and letters that a font lacks come from the next
one that has them.
"""

import contextlib
import dataclasses
import functools
import glob
import logging
import os
import shutil
import unicodedata

from _sandbox_start import FONT_LISTS, REPLACED

FONTS = "/usr/share/fonts/truetype"
LINKS = "/usr/share/fonts/names/"  # to the same fonts, by the names that their files have elsewhere
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


def keep_list(font_manager):
    """Keep the list of fonts that another version of matplotlib makes when it is first loaded, for later runs: it takes
    seconds."""
    name = f"fontlist-v{font_manager.FontManager.__version__}.json"
    made, kept = f"{font_manager.mpl.get_cachedir()}/{name}", FONT_LISTS[-1]
    if os.path.islink(made) or not os.path.isdir(f"{REPLACED}/matplotlib"):
        return
    try:
        os.makedirs(kept, exist_ok=True)
        shutil.copyfile(made, f"{kept}/.{os.getpid()}")
        os.replace(f"{kept}/.{os.getpid()}", f"{kept}/{name}")
    except OSError:
        pass  # no list, no room, or nothing to write to


def fit_matplotlib(font_manager):
    keep_list(font_manager)
    manager = font_manager.FontManager
    find, find_all, expand = manager.findfont, manager._find_fonts_by_props, manager._expand_aliases
    fonts = font_manager.fontManager
    _list_stand_ins(fonts)

    families = Families(fonts)
    families.look()

    @functools.wraps(find)
    def findfont(self, prop, *args, **kwargs):
        prop = font_manager.FontProperties._from_any(prop).copy()
        if prop.get_file() is None:
            families.look()
            prop.set_family(families.known(prop.get_family()))
        return find(self, prop, *args, **kwargs)

    @functools.wraps(find_all)
    def _find_fonts_by_props(self, prop, fontext="ttf", *args, **kwargs):
        found = find_all(self, prop, fontext, *args, **kwargs)
        return found + [file for file in fallbacks() if file not in found] if fontext == "ttf" else found

    manager.findfont, manager._find_fonts_by_props = findfont, _find_fonts_by_props
    manager._expand_aliases = staticmethod(lambda family: families.known(expand(family)))
    font_manager.findfont = fonts.findfont
    logging.getLogger(font_manager.__name__).addFilter(Once())


class Families:
    """Which family stands for another one, unless that is there itself. matplotlib asks tens of thousands of times for
    one font."""

    def __init__(self, fonts):
        self._fonts, self._seen, self._here = fonts, [], frozenset()

    def look(self):
        """Programs can add fonts to the list: these are taken before what stands for them, which is after them then."""
        fonts = self._fonts.ttflist
        if fonts != self._seen:
            self._here = frozenset(font.name for font in fonts if not _is_stand_in(font))
            fonts.sort(key=_is_stand_in)
            self._seen = list(fonts)

    def known(self, families):
        return [self._known(family) for family in families]

    def _known(self, family):
        instead = stand_ins().get(family.lower())
        return family if instead is None or family in self._here else instead


def _list_stand_ins(fonts):
    """Have programs that look for a font by its name in the list find it."""
    by_family = {}
    for font in fonts.ttflist:
        if not font.fname.startswith(LINKS):
            by_family.setdefault(font.name, []).append(font)
    with contextlib.suppress(FileNotFoundError), open(NAMES, encoding="utf-8") as file:
        for family, *names in (line.strip().split("|") for line in file if not line.startswith("#")):
            for font in by_family.get(family, []):
                fonts.ttflist.extend(dataclasses.replace(font, name=name) for name in names)


def _is_stand_in(font):
    return font.name.lower() in stand_ins() and font.fname.startswith(FONTS)


def fit_mathtext(mathtext):
    """Find letters that no font for formulas has, as in a title in Chinese with a formula."""
    find = mathtext.UnicodeFonts._get_glyph

    @functools.wraps(find)
    def _get_glyph(self, fontname, font_class, sym):
        if len(sym) == 1 and sym > "\u052f" and unicodedata.category(sym)[0] in "LM":
            for file in fallbacks():
                font = mathtext.get_font(file)
                if font.get_char_index(ord(sym)):
                    return font, ord(sym), False
        return find(self, fontname, font_class, sym)

    mathtext.UnicodeFonts._get_glyph = _get_glyph
