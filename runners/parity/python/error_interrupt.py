# KeyboardInterrupt ends the process by the signal.
raise KeyboardInterrupt
