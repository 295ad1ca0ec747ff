// A rejection that nobody handles.
Promise.reject(new Error("not handled"));
console.log("main ends");
