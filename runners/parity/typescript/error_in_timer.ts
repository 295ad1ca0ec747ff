// An uncaught error in a timer ends the program.
setTimeout(() => {
  throw new TypeError("late");
}, 5);
setTimeout(() => console.log("never"), 200);
