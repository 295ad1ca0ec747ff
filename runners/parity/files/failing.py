print("about to fail")
raise RuntimeError("while importing")
