"""Gives a font the letters that it only claims to have, from another one.

WenQuanYi Micro Hei has empty glyphs for signs such as the degree Celsius and for letters of Pinyin, and fractions without
their digits. No program looks elsewhere for what a font says that it has.
"""

import sys
import unicodedata

from fontTools.pens.recordingPen import DecomposingRecordingPen
from fontTools.pens.transformPen import TransformPen
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTCollection, TTFont

WRONG = "¼½¾✓✗"

broken, donor = sys.argv[1:]
collection = TTCollection(broken)
other = TTFont(donor)
glyphs, names = other.getGlyphSet(), other.getBestCmap()
mended = {}
for font in collection:
    scale = font["head"].unitsPerEm / other["head"].unitsPerEm
    for code, name in font.getBestCmap().items():
        letter = chr(code)
        is_empty = font["glyf"][name].numberOfContours == 0 and unicodedata.category(letter)[0] in "LNPS"
        if code not in names or not (is_empty or letter in WRONG):
            continue
        pen, outline = TTGlyphPen(None), DecomposingRecordingPen(glyphs)
        glyphs[names[code]].draw(outline)
        outline.replay(TransformPen(pen, (scale, 0, 0, scale, 0, 0)))
        font["glyf"][name] = pen.glyph()
        width, bearing = other["hmtx"][names[code]]
        font["hmtx"][name] = (round(width * scale), round(bearing * scale))
        mended[code] = letter
assert "℃" in mended.values(), mended
collection.save(broken)
print("mended:", "".join(mended.values()))
