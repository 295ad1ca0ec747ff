// Exit from a timer, with work left.
setInterval(() => {}, 1000);
setTimeout(() => process.exit(4), 5);
