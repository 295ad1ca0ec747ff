// A rejection that is handled in the same turn is none.
const promise = Promise.reject(new Error("late"));
promise.catch((error) => console.log("handled", error.message));
