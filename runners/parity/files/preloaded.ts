(globalThis as any).preloaded = true;
