# Text beyond ASCII, and what cannot be encoded.
print("äöü € 漢字 🙂 \u202eabc")
print("\ud800")
