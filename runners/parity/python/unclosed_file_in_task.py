# A file that a task holds which still waits when the program ends.
import asyncio


async def main():
    file = open("/data/unclosed.txt", "w")
    file.write("data")
    await asyncio.sleep(1000)


loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
loop.create_task(main())
loop.run_until_complete(asyncio.sleep(0.05))
