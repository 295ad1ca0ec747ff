# The zone is UTC.
import datetime
import time

print(time.tzname, time.timezone, datetime.datetime(2024, 7, 1).astimezone().isoformat(), time.process_time() < 5)
