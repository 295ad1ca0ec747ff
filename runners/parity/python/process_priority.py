# The memory killer takes the program first.
print(open("/proc/self/oom_score_adj").read().strip())
