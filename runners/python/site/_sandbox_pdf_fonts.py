"""Has reportlab's standard fonts take the letters they lack, all but those of Western Europe, from fonts of the image.

What a standard font has is written as ever, without a font in the file. To reportlab the whole is a dynamic font, which
splits a text into parts that each belong to one font of the file.
"""

import itertools

from _sandbox_fonts import FONTS, fallbacks

# The standard families, and fonts of the image that look like them.
FAMILIES = {"Helvetica": "LiberationSans", "Times": "LiberationSerif", "Courier": "LiberationMono"}


class Font:
    _dynamicFont = _multiByte = 1
    shapable = False

    def __init__(self, name, standard, load):
        self.fontName = name
        self.face, self.encoding, self.encName = standard.face, standard.encoding, standard.encName
        self._standard = standard
        self._load = load
        self._files = [alike(name), *fallbacks()]
        self._fonts = {}  # file -> font, for those that were needed
        self._places = {}  # letter -> its place among the fonts, 0 for the standard font

    def stringWidth(self, text, size, encoding="utf8"):
        return sum(self._font(place).stringWidth(part, size) for place, part in self._parts(text))

    def splitString(self, text, doc, encoding="utf-8"):
        for place, part in self._parts(text):
            if place == 0:
                yield (0, 0), part.encode(self.encName, "replace")
            else:
                for subset, codes in self._font(place).splitString(part, doc):
                    yield (place, subset), codes

    def getSubsetInternalName(self, subset, doc):
        place, inner = subset
        if place == 0:
            return doc.getInternalFontName(self._standard.fontName)
        return self._font(place).getSubsetInternalName(inner, doc)

    def _parts(self, text):
        if isinstance(text, bytes):
            text = text.decode()
        for place, letters in itertools.groupby(text, self._place):
            yield place, "".join(letters)

    def _place(self, letter):
        if letter not in self._places:
            self._places[letter] = 0 if self._is_standard(letter) else self._find(letter)
        return self._places[letter]

    def _is_standard(self, letter):
        try:
            return bool(letter.encode(self.encName))
        except UnicodeEncodeError:
            return False

    def _find(self, letter):
        places = range(1, len(self._files) + 1)
        return next((place for place in places if ord(letter) in self._font(place).face.charToGlyph), 0)

    def _font(self, place):
        if place == 0:
            return self._standard
        file = self._files[place - 1]
        if file not in self._fonts:
            self._fonts[file] = self._load(file)
        return self._fonts[file]


def alike(name):
    """The file of a font whose family and style are like those of a standard font."""
    family, _, style = name.partition("-")
    style = style.replace("Oblique", "Italic").replace("Roman", "") or "Regular"
    return f"{FONTS}/liberation/{FAMILIES[family]}-{style}.ttf"


def fit_reportlab(pdfmetrics):
    find, loaded = pdfmetrics.findFontAndRegister, {}

    def load(file):
        from reportlab.pdfbase.ttfonts import TTFont

        if file not in loaded:
            font = loaded[file] = TTFont(f"{file.rpartition('/')[2]} (image)", file, shapable=False)
            # A document has each name once, and programs register the same files.
            font.face.name = type(font.face.name)(font.face.name + b"-Image")
        return loaded[file]

    def findFontAndRegister(name):
        font = find(name)
        if not fallbacks() or font._dynamicFont or name.partition("-")[0] not in FAMILIES:
            return font
        font.fontName = f"{name} (standard)"
        pdfmetrics._fonts[font.fontName] = font
        pdfmetrics._fonts[name] = Font(name, font, load)
        return pdfmetrics._fonts[name]

    pdfmetrics.findFontAndRegister = findFontAndRegister
