// The zone is UTC.
console.log(new Date(0).toString(), Intl.DateTimeFormat().resolvedOptions().timeZone, new Date(2024, 6, 1).toLocaleString());
console.log(performance.now() < 60_000, process.uptime() < 60);
