// A rejection with something else than an error.
Promise.reject("just text");
