# Endless recursion, uncaught: repeated lines are folded.
def again(n):
    return again(n + 1)


again(0)
