# A coroutine that nobody awaits.
async def forgotten():
    pass


forgotten()
print("on")
