# A program that closes its own output.
import sys

print("last words")
sys.stdout.close()
