# A last line that is a comment, and a form feed.

print("end")
# no more
