# asyncio, with a subprocess and an error.
import asyncio


async def tick(name, delay):
    await asyncio.sleep(delay)
    print(name)
    return name


async def main():
    print(await asyncio.gather(tick("b", 0.02), tick("a", 0.01)))
    process = await asyncio.create_subprocess_exec("echo", "child", stdout=asyncio.subprocess.PIPE)
    print((await process.communicate())[0])
    async with asyncio.TaskGroup() as group:
        group.create_task(tick("c", 0))
    raise ValueError("from a coroutine")


asyncio.run(main())
