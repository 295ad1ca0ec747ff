# An exit status of another type is printed as text.
raise SystemExit({"reason": "odd"})
