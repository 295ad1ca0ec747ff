// Anything can be thrown.
throw { reason: "odd", code: 3 };
